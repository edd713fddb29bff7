"""One figure over several seeds: the mean, and how far seeds lie apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import mean
from typing import Literal, NamedTuple

__all__ = ["OverSeeds", "Spread", "over_seeds", "resampled"]

Spread = Literal["range", "interval"]
_RESAMPLED = 2000  # draws of seeds for an interval
_LEVEL = 0.95


class OverSeeds(NamedTuple):
    """A mean, and the ends beside it: of one seed they are the same."""

    mean: float
    low: float
    high: float
    seeds: int


def over_seeds(values: Sequence[float], spread: Spread = "range") -> OverSeeds:
    """With the lowest and the highest seed, or a 95% interval of the mean."""
    if spread == "range" or len(values) == 1:
        return OverSeeds(mean(values), min(values), max(values), len(values))
    low, high = resampled(lambda drawn: mean(values[seed] for seed in drawn), len(values))
    return OverSeeds(mean(values), low, high, len(values))


def resampled(statistic: Callable[[Sequence[int]], float], seeds: int) -> tuple[float, float]:
    """A 95% interval of a figure over seeds, by drawing seeds with replacement."""
    random = Random(0)  # noqa: S311 – a draw, not a secret
    found = sorted(statistic(random.choices(range(seeds), k=seeds)) for _ in range(_RESAMPLED))
    tail = (1 - _LEVEL) / 2
    return found[int(tail * _RESAMPLED)], found[int((1 - tail) * _RESAMPLED) - 1]
