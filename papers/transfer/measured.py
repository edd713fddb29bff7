"""The summary of the transfer paper's trainings: scores, gains, and the labels that transfer saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from papers.common.cells import Spread, Studies
from papers.transfer.studies import NONE, VARIATIONS, Study, point

from wardround.evaluation.counts import SpanCounts

__all__ = ["RECIPES", "SIZES", "Measured", "Saved", "needed_without", "share_saved", "size_for"]

RECIPES = {"sgd": "SGD", "adam": "Adam"}
SIZES = sorted({v.size for v in VARIATIONS.values() if v.site == "target"})
_KEPT = ("seed", "rounds", "best_round", "stopped", "notes", "mentions", "seconds", "dev_f1", "strict")
_KEPT_ALONE = ("interval", "relaxed", "types", "leakage", "recall_first")  # of trainings with one seed


class Saved(NamedTuple):
    """The share of the target that scores as much without transfer as `size` percent of it with transfer."""

    size: float
    f1: float
    without: float | None  # percent of the target; None: more than any size that was measured
    largest: float  # size that was measured without transfer

    @property
    def share(self) -> float:
        """Return the share of the labels needed without transfer that transfer saves; a lower bound."""
        return 1 - self.size / (self.largest if self.without is None else self.without)


class Measured(Studies):
    """The summary: the counts of every training."""

    variations = VARIATIONS

    def f1(self, name: str, seeds: Sequence[int] | None = None) -> list[float]:
        """Return strict F1 on the test notes by seed."""
        known = self.studies[name]["seed"]
        counted = [self.studies[name]["strict"][known.index(s)] for s in (known if seeds is None else seeds)]
        return [SpanCounts(*counts).f1 for counts in counted]

    def spread(self, name: str) -> Spread:
        """Return mean and interval over seeds."""
        return Spread.of(self.f1(name))

    def gain(self, name: str, other: str) -> Spread | None:
        """Return the difference of two trainings over the seeds that both have."""
        if not (seeds := self.seeds(name, other)):
            return None
        return Spread.of([a - b for a, b in zip(self.f1(name, seeds), self.f1(other, seeds), strict=True)])

    def transfer_gain(self, corpus: str, size: int, layer: str = "all") -> Spread | None:
        """Return the gain of transfer up to a layer over no transfer, on the same notes."""
        return self.gain(point(corpus, size, layer), point(corpus, size, NONE))

    def curve(self, corpus: str, layer: str, sizes: Sequence[int] = SIZES) -> dict[int, Spread]:
        """Return F1 by size."""
        return {size: self.spread(name) for size in sizes if self.has(name := point(corpus, size, layer))}

    def saved(self, corpus: str) -> Iterator[Saved]:
        """Yield the labels that transfer saves at each size."""
        fresh = {size: spread.mean for size, spread in self.curve(corpus, NONE).items()}
        for size, spread in self.curve(corpus, "all").items() if fresh else ():
            yield Saved(size, spread.mean, size_for(fresh, spread.mean), max(fresh))

    @property
    def official(self) -> dict[str, dict[str, Any]]:
        """Return the only seed of each recipe on all of MEDDOCAN, by title."""
        known = self.known({title: f"official-{recipe}" for recipe, title in RECIPES.items()})
        return {
            title: {key: values[0] for key, values in self.studies[name].items() if key != "layers"}
            for title, name in known.items()
        }

    @classmethod
    def summary_of(cls, variation: Study, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return counts by seed, and what became of each layer of the source."""
        kept = _KEPT if variation.site == "target" else (*_KEPT, *_KEPT_ALONE)
        layers = [[layer["layer"], layer["how"]] for layer in runs[0]["layers"]]
        return {**{key: [run[key] for run in runs] for key in kept}, "layers": layers}


def size_for(curve: Mapping[int, float], f1: float) -> float | None:
    """Return the smallest size at which a curve, linear between its points, reaches `f1`; None if it never does.

    If its first point reaches it already, that size is returned: smaller ones were not measured.
    """
    known = sorted(curve.items())
    if known[0][1] >= f1:
        return float(known[0][0])
    for (left, low), (right, high) in pairwise(known):
        if low < f1 <= high:
            return left + (right - left) * (f1 - low) / (high - low)
    return None


def needed_without(saved: Saved, smallest: int) -> str:
    """Return the size that is needed without transfer, as far as it was measured."""
    if saved.without is None:
        return f"more than {saved.largest:g}%"
    return f"{smallest}% or less" if saved.without <= smallest else f"{saved.without:.0f}%"


def share_saved(saved: Saved) -> str:
    """Return the share of labels that transfer saves."""
    if saved.without is None:
        return f"{100 * saved.share:.0f}% or more" if saved.share > 0 else "some"
    return f"{100 * saved.share:.0f}%" if saved.share > 0 else "none"
