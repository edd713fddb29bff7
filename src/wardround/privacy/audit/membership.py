"""Membership inference on a finished model: can an attacker distinguish its training notes from other notes?

A model that remembers its training notes has a smaller loss on them. The attacker has the model, and guesses that a
note was in the training if its loss is low (Yeom et al. 2018), or lower than that of a reference model that never saw
the note (Carlini et al. 2022). The AUC is the probability that a random training note gets a higher score than a random
other note: 0.5 is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wardround.evaluation.significance import Interval
from wardround.federation.message import Array

__all__ = ["MembershipFinding", "area_under_curve", "guess_membership"]

_LEVEL = 0.95


@dataclass(frozen=True)
class MembershipFinding:
    """How well one attack tells the notes of the training from others."""

    attack: str
    members: int
    others: int
    auc: Interval  # over notes
    caught: float  # share of the members that are named while one other note in a hundred is named wrongly

    @property
    def above_chance(self) -> bool:
        """Return whether the interval lies above 0.5."""
        return self.auc.low > 0.5


def guess_membership(
    attack: str, members: Sequence[float], others: Sequence[float], *, resamples: int = 1000, seed: int = 0
) -> MembershipFinding:
    """Return how well scores tell members from others; higher scores mean "was in the training"."""
    inside, outside = np.asarray(members, np.float64), np.asarray(others, np.float64)
    random = np.random.default_rng(seed)
    drawn = [
        area_under_curve(
            inside[random.integers(0, len(inside), len(inside))],
            outside[random.integers(0, len(outside), len(outside))],
        )
        for _ in range(resamples)
    ]
    low, high = np.quantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    interval = Interval(area_under_curve(inside, outside), float(low), float(high), _LEVEL)
    caught = float((inside > np.quantile(outside, 0.99, method="higher")).mean())
    return MembershipFinding(attack, len(inside), len(outside), interval, caught)


def area_under_curve(members: Array, others: Array) -> float:
    """Return the probability that a member has a higher score than another note; ties count one half."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, members, side="left")
    level = np.searchsorted(ordered, members, side="right") - below
    return float((below + 0.5 * level).mean() / len(ordered))
