"""True positives, false positives and false negatives: they add, and only then are they divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

__all__ = ["MacroScores", "SpanCounts", "TypedCounts", "merged", "ratio"]

_Summand = TypeVar("_Summand")


def ratio(numerator: float, denominator: float) -> float:
    """The quotient, and 0.0 where it is undefined."""
    return numerator / denominator if denominator else 0.0


def merged(
    left: Mapping[str, _Summand], right: Mapping[str, _Summand], add: Callable[[_Summand, _Summand], _Summand]
) -> dict[str, _Summand]:
    """Both mappings in one, sorted by key; `add` joins the values of a key that both have."""
    total = dict(left)
    for key, value in right.items():
        total[key] = add(total[key], value) if key in total else value
    return dict(sorted(total.items()))


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """How many predicted mentions were right, wrong, and how many gold ones were not found."""

    tp: int = 0
    fp: int = 0
    fn: int = 0

    def __add__(self, other: SpanCounts) -> SpanCounts:
        return SpanCounts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)

    @property
    def predicted(self) -> int:
        """How many were predicted."""
        return self.tp + self.fp

    @property
    def gold(self) -> int:
        """How many there are; also called the support."""
        return self.tp + self.fn

    @property
    def precision(self) -> float:
        """The part of the predicted that is right."""
        return ratio(self.tp, self.predicted)

    @property
    def recall(self) -> float:
        """The part of the gold that was found."""
        return ratio(self.tp, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return ratio(2 * self.tp, self.predicted + self.gold)

    def figures(self) -> dict[str, float]:
        """Scores and counts as plain values."""
        scores = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return scores | {"tp": self.tp, "fp": self.fp, "fn": self.fn}


class MacroScores(NamedTuple):
    """Plain means over types, so a rare type weighs as much as a frequent one."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, eq=False)
class TypedCounts(Mapping[str, SpanCounts]):
    """Counts by type."""

    by_type: Mapping[str, SpanCounts] = field(default_factory=dict)

    @classmethod
    def tally(cls, *, gold: Iterable[str], predicted: Iterable[str], right: Iterable[str]) -> TypedCounts:
        """Counts from the type of every gold, every predicted and every rightly predicted mention."""
        golds, guesses, hits = Counter(gold), Counter(predicted), Counter(right)
        return cls({t: SpanCounts(hits[t], guesses[t] - hits[t], golds[t] - hits[t]) for t in sorted(golds | guesses)})

    def __getitem__(self, type_: str) -> SpanCounts:
        return self.by_type[type_]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_type)

    def __len__(self) -> int:
        return len(self.by_type)

    def __add__(self, other: TypedCounts) -> TypedCounts:
        return TypedCounts(merged(self.by_type, other.by_type, SpanCounts.__add__))

    @property
    def micro(self) -> SpanCounts:
        """All types in one: a frequent type weighs more."""
        return sum(self.values(), SpanCounts())

    @property
    def macro(self) -> MacroScores:
        """Means over the types that occur in gold or prediction."""
        occurring = [counts for counts in self.values() if counts.gold or counts.predicted]
        return MacroScores(
            ratio(sum(c.precision for c in occurring), len(occurring)),
            ratio(sum(c.recall for c in occurring), len(occurring)),
            ratio(sum(c.f1 for c in occurring), len(occurring)),
        )
