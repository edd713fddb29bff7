"""The figures of the FedED paper that are measured again here."""

from __future__ import annotations

# Tables 3 to 5, the paper's own model: precision, recall, F1 in percent. The third corpus is not the one that is here.
SCORES = {
    "gad": {
        "central": (77.58, 91.1, 83.8),
        "fedavg": (69.89, 87.54, 77.73),
        "fedatt": (72.14, 87.54, 79.1),
        "feded": (74.77, 88.61, 81.11),
    },
    "euadr": {
        "central": (78.79, 96.3, 86.67),
        "fedavg": (71.43, 92.59, 80.65),
        "fedatt": (72.22, 96.3, 82.54),
        "feded": (74.29, 96.3, 83.87),
    },
    "i2b2": {
        "central": (74.78, 80.1, 77.35),
        "fedavg": (74.75, 70.48, 72.55),
        "fedatt": (74.48, 71.32, 72.86),
        "feded": (75.4, 74.78, 75.09),
    },
}

# Tables 2 and 6, i2b2: relations in both parts; F1 in percent of public (the validation set), FedAvg, FedAtt, FedED.
CLASSES = {
    "TeRP": (3053, (79.74, 84.96, 85.24, 85.3)),
    "TrAP": (2617, (67.75, 72.68, 71.55, 76.05)),
    "PIP": (2203, (66.98, 71.07, 75.16, 73.69)),
    "TrCP": (526, (43.11, 50.41, 47.73, 54.9)),
    "TeCP": (504, (27.36, 49.41, 51.46, 58.02)),
    "TrIP": (203, (24.24, 23.08, 1.3, 48.03)),
    "TrNAP": (174, (22.54, 21.79, 18.79, 56.16)),
    "TrWP": (133, (0.0, 0.0, 0.0, 11.97)),
}

# Table 7: what a site uploads in a round.
UPLOADS = {
    "fedavg": {"gad": "423 MB", "euadr": "423 MB", "i2b2": "423 MB"},
    "fedatt": {"gad": "423 MB", "euadr": "423 MB", "i2b2": "423 MB"},
    "feded": {"gad": "5 KB", "euadr": "323 B", "i2b2": "42 KB"},
}

# Table 8, i2b2: rounds to an F1 of 72% by (B, E); without a number, not reached. Figure 2 has no numbers in the text.
ROUNDS: dict[tuple[int, int], dict[str, int | None]] = {
    (2, 1): {"fedavg": 27, "fedatt": 28, "feded": 9},
    (8, 1): {"fedavg": 48, "fedatt": 48, "feded": 20},
    (16, 1): {"fedavg": None, "fedatt": None, "feded": 34},
    (2, 3): {"fedavg": 20, "fedatt": 20, "feded": 7},
    (8, 3): {"fedavg": 34, "fedatt": 30, "feded": 11},
    (16, 3): {"fedavg": 47, "fedatt": 46, "feded": 15},
}
