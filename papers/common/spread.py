"""What several seeds of a study give: which there are, their mean, its interval, and these as cells of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from papers.common.page import NOTHING, resampled

__all__ = ["Spread", "Studies", "percent", "points", "with_interval"]


class Studies:
    """What a summary holds, by study; each has a list of seeds, and lists of the same length of what they gave."""

    def __init__(self, studies: Mapping[str, Any]) -> None:
        self.studies = studies

    def has(self, *names: str) -> bool:
        """Whether all of these were measured, with one seed in common at least."""
        return bool(self.seeds(*names))

    def seeds(self, *names: str) -> list[int]:
        """Those that all of these studies have."""
        found = [set(self.studies[name]["seed"]) if name in self.studies else set() for name in names]
        return sorted(set.intersection(*found)) if found else []


class Spread(NamedTuple):
    """A mean over seeds, and where 95% of its bootstrap lies; None with a single seed."""

    mean: float
    interval: tuple[float, float] | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Seeds are drawn with replacement."""
        ends = None
        if len(values) > 1:
            ends = resampled(lambda picks: mean(values[pick] for pick in picks), len(values))
        return cls(mean(values), ends, len(values))


def percent(share: float | None) -> str:
    """With one digit."""
    return NOTHING if share is None else f"{100 * share:.1f}"


def with_interval(spread: Spread | None) -> str:
    """A mean and its interval, in percent."""
    if spread is None or spread.interval is None:
        return percent(None if spread is None else spread.mean)
    low, high = spread.interval
    return f"{percent(spread.mean)} ({percent(low)} – {percent(high)})"


def points(spread: Spread | None) -> str:
    """A gain and its interval, in points."""
    if spread is None:
        return NOTHING
    ends = "" if spread.interval is None else " ({:+.1f} to {:+.1f})".format(*(100 * end for end in spread.interval))
    return f"{100 * spread.mean:+.1f}{ends}"
