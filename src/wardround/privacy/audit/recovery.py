"""How much an attack recovered: an order of candidates, the best first, compared with what was there.

An attack gives each candidate a score, and names those with the lowest scores. Where it stops is decided in hindsight:
where F1 is highest while at least half of the named ones are right. A real attacker does not know where to stop, so
this is the best that this order can give. What the same rule gives for a random order is the chance level.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Recovery", "recover"]

Array = np.ndarray[Any, Any]

_PRECISION = 0.5  # of the named candidates, at least this share is right
_SHUFFLES = 20  # random orders, for the chance level


@dataclass(frozen=True)
class Recovery:
    """The tokens that an attack named, as counts.

    >>> from wardround.privacy.audit.recovery import Recovery
    >>> found = Recovery(there=10, named=8, right=6, chance=0.01)
    >>> found.recall, found.precision
    (0.6, 0.75)
    """

    there: int  # different tokens behind the update
    named: int
    right: int
    chance: float  # the recall of a random order

    @property
    def recall(self) -> float:
        """Return the share of the tokens that were named."""
        return self.right / self.there if self.there else 0.0

    @property
    def precision(self) -> float:
        """Return the share of the named tokens that were there."""
        return self.right / self.named if self.named else 0.0


def recover(candidates: Array, scores: Array, there: Iterable[int]) -> tuple[Recovery, Array]:
    """Return what an order of candidates recovers, and the candidates that are named.

    Args:
        candidates: numbers of tokens, without repeats.
        scores: one for each candidate, the lowest first; an infinite one is never named.
        there: the tokens behind the update.
    """
    present = np.fromiter(set(there), dtype=np.int64)
    is_there = np.isin(candidates, present)
    order = np.argsort(scores, kind="stable")
    named = _named(is_there[order], scores[order], len(present))
    random = np.random.default_rng(0)
    level = [
        is_there[shuffled[: _named(is_there[shuffled], np.arange(len(shuffled), dtype=float), len(present))]].sum()
        for shuffled in (random.permutation(len(candidates)) for _ in range(_SHUFFLES))
    ]
    chosen = order[:named]
    found = Recovery(len(present), named, int(is_there[chosen].sum()), float(np.mean(level)) / max(len(present), 1))
    return found, candidates[chosen]


def _named(is_there: Array, scores: Array, there: int) -> int:
    """Return how many of the ordered candidates are named; candidates with equal scores are named together."""
    usable = int(np.isfinite(scores).sum())
    if not usable:
        return 0
    right, named = np.cumsum(is_there[:usable]), np.arange(1, usable + 1)
    allowed = (right >= _PRECISION * named) & np.append(scores[1:usable] != scores[: usable - 1], True)
    f1 = np.where(allowed, 2 * right / (named + there), 0.0)
    best = int(f1.argmax())
    return best + 1 if f1[best] > 0 else 0
