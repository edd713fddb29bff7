"""Counts of true positives, false positives and false negatives.

Counts are added over documents and sites first and divided into precision, recall and F1 last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

__all__ = ["MacroScores", "SpanCounts", "TagSetScores", "TypedCounts", "macro_f1", "merged", "ratio"]

_Summand = TypeVar("_Summand")


def ratio(numerator: float, denominator: float) -> float:
    """Return the quotient, or 0.0 if the denominator is zero."""
    return numerator / denominator if denominator else 0.0


def merged(
    left: Mapping[str, _Summand], right: Mapping[str, _Summand], add: Callable[[_Summand, _Summand], _Summand]
) -> dict[str, _Summand]:
    """Return the union of two mappings, sorted by key; `add` combines the values of a common key."""
    total = dict(left)
    for key, value in right.items():
        total[key] = add(total[key], value) if key in total else value
    return dict(sorted(total.items()))


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """True positives, false positives and false negatives."""

    tp: int = 0
    fp: int = 0
    fn: int = 0

    def __add__(self, other: SpanCounts) -> SpanCounts:
        return SpanCounts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)

    @property
    def predicted(self) -> int:
        """Number of predicted mentions."""
        return self.tp + self.fp

    @property
    def gold(self) -> int:
        """Number of gold mentions, also called the support."""
        return self.tp + self.fn

    @property
    def precision(self) -> float:
        """Share of the predicted mentions that are correct."""
        return ratio(self.tp, self.predicted)

    @property
    def recall(self) -> float:
        """Share of the gold mentions that were found."""
        return ratio(self.tp, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return ratio(2 * self.tp, self.predicted + self.gold)

    def figures(self) -> dict[str, float]:
        """Return scores and counts as plain values."""
        scores = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return scores | {"tp": self.tp, "fp": self.fp, "fn": self.fn}


class MacroScores(NamedTuple):
    """Unweighted means over types: a rare type counts as much as a frequent one."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, eq=False)
class TypedCounts(Mapping[str, SpanCounts]):
    """Counts by entity or relation type."""

    by_type: Mapping[str, SpanCounts] = field(default_factory=dict)

    @classmethod
    def tally(cls, *, gold: Iterable[str], predicted: Iterable[str], correct: Iterable[str]) -> TypedCounts:
        """Count from the types of all gold, all predicted and all correctly predicted mentions."""
        golds, guesses, hits = Counter(gold), Counter(predicted), Counter(correct)
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
        """Sum over all types, so a frequent type counts more."""
        return sum(self.values(), SpanCounts())

    @property
    def macro(self) -> MacroScores:
        """Means over the types that occur in the gold or in the predicted annotation."""
        occurring = [counts for counts in self.values() if counts.gold or counts.predicted]
        return MacroScores(
            ratio(sum(c.precision for c in occurring), len(occurring)),
            ratio(sum(c.recall for c in occurring), len(occurring)),
            ratio(sum(c.f1 for c in occurring), len(occurring)),
        )


def macro_f1(counts: TypedCounts, types: Collection[str]) -> float | None:
    """Return the mean F1 of those `types` that occur in gold or prediction; None if none of them occurs."""
    found = [c.f1 for kind, c in counts.items() if kind in types and (c.gold or c.predicted)]
    return sum(found) / len(found) if found else None


@dataclass(frozen=True)
class TagSetScores:
    """Scores of one site's model, separated into types that the site annotates and types that it does not."""

    counts: TypedCounts
    annotated: tuple[str, ...]  # types annotated in the training notes
    scored: tuple[str, ...]  # types annotated in the test notes

    def f1(self, kind: str) -> float | None:
        """Return the F1 of one type; None if it is not scored or occurs neither in gold nor in prediction."""
        return macro_f1(self.counts, (kind,)) if kind in self.scored else None

    def macro(self) -> dict[str, float | None]:
        """Return the mean F1 over all scored types, over the annotated ones, and over the others."""
        others = tuple(kind for kind in self.scored if kind not in self.annotated)
        own = tuple(kind for kind in self.scored if kind in self.annotated)
        parts = {"all": self.scored, "annotated": own, "not_annotated": others}
        return {name: macro_f1(self.counts, types) for name, types in parts.items()}
