"""What Wang et al. (2023) published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers.tagsets.make_sites import GENRES

# Tables 1 and 2: F1 in percent over all types, by site; the last is the mean over sites.
ONTONOTES = {
    "ganin": (58.75, 56.95, 57.31, 57.57, 58.38, 58.15, 57.85),
    "peng": (61.32, 58.32, 59.64, 60.10, 59.75, 60.09, 59.87),
    "hong": (59.27, 55.27, 55.86, 58.16, 56.79, 57.33, 57.11),
    "neither": (45.10, 52.15, 49.42, 46.52, 47.55, 46.71, 47.91),
    "no-weight": (59.76, 55.09, 52.66, 58.47, 57.00, 58.42, 56.90),
    "full": (61.67, 59.92, 59.52, 62.41, 60.57, 63.22, 61.22),
}
CLINIC = {
    "ganin": (66.89, 57.26, 60.70, 61.62),
    "peng": (63.77, 55.38, 58.85, 59.33),
    "hong": (67.49, 57.56, 59.02, 61.36),
    "neither": (41.92, 41.68, 45.81, 43.14),
    "no-weight": (66.80, 54.91, 60.29, 60.67),
    "full": (69.25, 55.68, 62.22, 62.38),
}
SCORES: Mapping[str, Mapping[str, Sequence[float]]] = {"gum": ONTONOTES, "bio": CLINIC}
DOMAINS = {"gum": ("OntoNotes 5.0", tuple(GENRES.values())), "bio": ("clinic data", ("ADE", "CADEC", "SMM4H"))}

TRAINABLE = 7.04  # percent of LightNER on bart-base, h = 400
# Appendix A: numbers that are exchanged beside the model, over the hidden size d.
DISCRIMINATORS = {"gum": 72, "bio": 36}
WEIGHTING = 10
