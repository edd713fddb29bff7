"""Measured runs in brief, and the figures that tables, plots and bars are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from papers.common.spread import Spread, Studies
from papers.transfer.variations import NONE, SIZES, VARIATIONS, point

from wardround.evaluation.counts import SpanCounts

_KEPT = ("seed", "rounds", "best_round", "stopped", "notes", "mentions", "seconds", "dev_f1", "strict")
_KEPT_ALONE = ("interval", "relaxed", "types", "leakage", "recall_first")  # of what is measured with one seed


class Saved(NamedTuple):
    """How much of the target without transfer scores as much as `size` percent of it with transfer."""

    size: float
    f1: float
    without: float | None  # percent of the target; None is more than any size that was measured
    largest: float  # size that was measured without transfer

    @property
    def share(self) -> float:
        """Of the labels that are needed without transfer, those that transfer saves; at least so many."""
        return 1 - self.size / (self.largest if self.without is None else self.without)


class Measured(Studies):
    """What `condensed` left, by training."""

    def f1(self, name: str, seeds: Sequence[int] | None = None) -> list[float]:
        """Strict F1 on the test notes, a figure a seed."""
        known = self.studies[name]["seed"]
        counted = [self.studies[name]["strict"][known.index(s)] for s in (known if seeds is None else seeds)]
        return [SpanCounts(*counts).f1 for counts in counted]

    def spread(self, name: str) -> Spread:
        """Over seeds."""
        return Spread.of(self.f1(name))

    def gain(self, name: str, other: str) -> Spread | None:
        """How much more one has than another with the same seeds, where there are any."""
        seeds = self.seeds(name, other)
        if not seeds:
            return None
        pairs = zip(self.f1(name, seeds), self.f1(other, seeds), strict=True)
        return Spread.of([one - two for one, two in pairs])

    def transfer_gain(self, corpus: str, size: int, layer: str = "all") -> Spread | None:
        """Of transfer up to a layer over none, on the same notes."""
        return self.gain(point(corpus, size, layer), point(corpus, size, NONE))

    def curve(self, corpus: str, layer: str, sizes: Sequence[int] = SIZES) -> dict[int, Spread]:
        """By size, where it was measured."""
        return {size: self.spread(name) for size in sizes if self.has(name := point(corpus, size, layer))}

    def saved(self, corpus: str) -> Iterator[Saved]:
        """For each size with transfer."""
        fresh = {size: spread.mean for size, spread in self.curve(corpus, NONE).items()}
        for size, spread in self.curve(corpus, "all").items() if fresh else ():
            yield Saved(size, spread.mean, size_for(fresh, spread.mean), max(fresh))


def size_for(curve: Mapping[int, float], f1: float) -> float | None:
    """The smallest size at which a curve, straight between its points, reaches `f1`; None where it nowhere does.

    Where its first point is there already, the size of that point: what lies below was not measured.
    """
    points = sorted(curve.items())
    if points[0][1] >= f1:
        return float(points[0][0])
    for (left, low), (right, high) in pairwise(points):
        if low < f1 <= high:
            return left + (right - left) * (f1 - low) / (high - low)
    return None


def condensed(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs as lists by training, a seed each."""
    studies = {}
    for name, variation in VARIATIONS.items():
        mine = sorted((run for run in runs if run["variation"] == name), key=lambda run: int(run["seed"]))
        if mine:
            kept = _KEPT if variation.site == "target" else (*_KEPT, *_KEPT_ALONE)
            studies[name] = {key: [run[key] for run in mine] for key in kept}
            studies[name]["layers"] = [[layer["layer"], layer["how"]] for layer in mine[0]["layers"]]
    return studies
