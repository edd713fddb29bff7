"""The figures of the FedHE paper that are measured again here."""

from __future__ import annotations

# Table 2: parameters, and megabytes of a plain and of an encrypted update.
SIZES = {
    "bert-tiny": ("4M", "16 MB", "340 MB"),
    "bert-mini": ("11M", "42 MB", "864 MB"),
    "bert-base": ("108M", "415 MB", "8 GB"),
}

# Table 3: mean, standard deviation and 99th percentile in seconds.
TIMES = {
    "bert-tiny": {"seal": (8.016, 0.133, 8.484), "open": (2.179, 0.053, 2.337)},
    "bert-mini": {"seal": (21.877, 0.251, 22.671), "open": (5.884, 0.095, 6.144)},
}

# The text beside Figure 1, whose curves are not given as numbers: clients, and seconds or what happened.
AGGREGATION = {
    "bert-tiny": ((22, "about 20 s"),),
    "bert-mini": ((14, "about 50 s"), (16, "out of memory")),
}

# Table 4, BC2GM: F1 on the training part and in evaluation, each with its standard deviation.
F1 = {
    "bert-tiny": {
        "single": ((0.804, 0.002), (0.593, 0.001)),
        "central": ((0.841, 0.000), (0.645, 0.003)),
        "federated": ((0.726, 0.010), (0.613, 0.016)),
        "fedhe": ((0.744, 0.005), (0.604, 0.010)),
    },
    "bert-mini": {
        "single": ((0.802, 0.000), (0.594, 0.002)),
        "central": ((0.995, 0.001), (0.763, 0.010)),
        "federated": ((0.958, 0.001), (0.703, 0.012)),
        "fedhe": ((0.998, 0.000), (0.739, 0.004)),
    },
}
