"""Pooled training, the baseline that hospitals may not use: all notes in one place.

The mean gradient of all sites is the gradient of all notes, so this is FedNER with every layer shared.
"""

from __future__ import annotations

from dataclasses import replace

from wardround.algorithms import fedner
from wardround.algorithms.algorithm import SharedLayers

__all__ = ["ALGORITHM"]

ALGORITHM = replace(
    fedner.ALGORITHM,
    name="pooled",
    description="All notes in one place, which hospitals may not do; for studies on one machine only.",
    shared_layers=SharedLayers.ALL_COMMON,
    sends="notes",
    one_machine_only=True,
    comparable_updates=False,
    noisy_steps=lambda config: None,
)
