"""Scores where sites annotate different types: a type that a site does not annotate is told from those that it does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from wardround.evaluation.counts import TypedCounts

__all__ = ["TagSetScores", "macro_f1"]


def macro_f1(counts: TypedCounts, types: Collection[str]) -> float | None:
    """The plain mean of the F1 of `types`, those left out that occur neither in gold nor in prediction."""
    found = [c.f1 for kind, c in counts.items() if kind in types and (c.gold or c.predicted)]
    return sum(found) / len(found) if found else None


@dataclass(frozen=True)
class TagSetScores:
    """How a site's model finds the types of its test notes, and which of them its training notes are annotated with."""

    counts: TypedCounts
    annotated: tuple[str, ...]  # in the training notes
    scored: tuple[str, ...]  # in the test notes

    def f1(self, kind: str) -> float | None:
        """Of one type; None where it is not scored, or occurs neither in gold nor in prediction."""
        return macro_f1(self.counts, (kind,)) if kind in self.scored else None

    def macro(self) -> dict[str, float | None]:
        """The mean over all types that are scored, over those annotated at the site, and over the others."""
        others = tuple(kind for kind in self.scored if kind not in self.annotated)
        own = tuple(kind for kind in self.scored if kind in self.annotated)
        parts = {"all": self.scored, "annotated": own, "not_annotated": others}
        return {name: macro_f1(self.counts, types) for name, types in parts.items()}
