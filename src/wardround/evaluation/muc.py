"""The MUC categories under four readings of "correct", with nervaluate's names and definitions.

| reading    | correct                         | touching, but not correct |
| ---------- | ------------------------------- | ------------------------- |
| `strict`   | type and ranges equal           | incorrect                 |
| `exact`    | ranges equal, any type          | incorrect                 |
| `partial`  | ranges equal, any type          | partial, worth a half     |
| `ent_type` | type equal, any shared character| incorrect                 |

A prediction that touches no free gold mention is spurious; a gold mention left free is missed. Predictions are
served in reading order and take the nearest correct gold mention, else the first they touch. Scores by type
compare the mentions of that type alone, so `overall` is not their sum.

Three differences from nervaluate, none of which shows where mentions of one side neither overlap nor repeat and
none is longer than 100 characters: a prediction with an equal gold mention is served first, so a nested neighbour
cannot take that one away; two entities of one type and place count once; one shared character is a touch, where
nervaluate asks for one percent of the gold mention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wardround.evaluation.counts import merged, ratio
from wardround.evaluation.overlaps import Mention, Overlaps

__all__ = ["READINGS", "MucCounts", "MucReadings", "MucScore", "score_muc"]

READINGS = ("strict", "exact", "partial", "ent_type")


@dataclass(frozen=True, slots=True)
class MucCounts:
    """The five categories a mention can fall into."""

    correct: int = 0
    incorrect: int = 0
    partial: int = 0
    missed: int = 0
    spurious: int = 0

    def __add__(self, other: MucCounts) -> MucCounts:
        return MucCounts(
            self.correct + other.correct,
            self.incorrect + other.incorrect,
            self.partial + other.partial,
            self.missed + other.missed,
            self.spurious + other.spurious,
        )

    @property
    def possible(self) -> int:
        """How many gold mentions there are."""
        return self.correct + self.incorrect + self.partial + self.missed

    @property
    def actual(self) -> int:
        """How many were predicted."""
        return self.correct + self.incorrect + self.partial + self.spurious

    @property
    def precision(self) -> float:
        """Credit by prediction; a partial one is worth a half."""
        return ratio(self.correct + self.partial / 2, self.actual)

    @property
    def recall(self) -> float:
        """Credit by gold mention; a partial one is worth a half."""
        return ratio(self.correct + self.partial / 2, self.possible)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return ratio(2 * self.correct + self.partial, self.actual + self.possible)


@dataclass(frozen=True, slots=True)
class MucReadings:
    """The categories counted under each reading."""

    strict: MucCounts = MucCounts()
    exact: MucCounts = MucCounts()
    partial: MucCounts = MucCounts()
    ent_type: MucCounts = MucCounts()

    def __add__(self, other: MucReadings) -> MucReadings:
        return MucReadings(
            self.strict + other.strict,
            self.exact + other.exact,
            self.partial + other.partial,
            self.ent_type + other.ent_type,
        )


@dataclass(frozen=True, slots=True)
class MucScore:
    """The readings over all types, and over each type alone."""

    overall: MucReadings = MucReadings()
    by_type: Mapping[str, MucReadings] = field(default_factory=dict)

    def __add__(self, other: MucScore) -> MucScore:
        return MucScore(self.overall + other.overall, merged(self.by_type, other.by_type, MucReadings.__add__))


def score_muc(overlaps: Overlaps) -> MucScore:
    """Count the categories of one document."""
    types = sorted({mention.type for mention in (*overlaps.gold, *overlaps.predicted)})
    return MucScore(_readings(overlaps), {type_: _readings(overlaps.of_type(type_)) for type_ in types})


def _readings(overlaps: Overlaps) -> MucReadings:
    correct, touching, missed, spurious = _serve(overlaps, _same_ranges)
    return MucReadings(
        strict=_as_incorrect(_serve(overlaps, _same_mention)),
        exact=MucCounts(correct=correct, incorrect=touching, missed=missed, spurious=spurious),
        partial=MucCounts(correct=correct, partial=touching, missed=missed, spurious=spurious),
        ent_type=_as_incorrect(_serve(overlaps, _same_type)),
    )


def _as_incorrect(served: tuple[int, int, int, int]) -> MucCounts:
    correct, touching, missed, spurious = served
    return MucCounts(correct=correct, incorrect=touching, missed=missed, spurious=spurious)


def _serve(overlaps: Overlaps, is_correct: Callable[[Mention, Mention], bool]) -> tuple[int, int, int, int]:
    """How many are correct, merely touching, missed and spurious."""
    correct, taken = 0, set[int]()
    for position in _equals_first(overlaps):
        mention = overlaps.predicted[position]
        free = [gold for gold in overlaps.shared[position] if gold not in taken]
        fitting = [gold for gold in free if is_correct(overlaps.gold[gold], mention)]
        if fitting:
            correct += 1
            taken.add(min(fitting, key=lambda gold: _distance(overlaps.gold[gold], mention)))
        elif free:
            taken.add(free[0])
    return correct, len(taken) - correct, len(overlaps.gold) - len(taken), len(overlaps.predicted) - len(taken)


def _equals_first(overlaps: Overlaps) -> list[int]:
    mentions, ranges = set(overlaps.gold), {mention.ranges for mention in overlaps.gold}

    def rank(position: int) -> tuple[bool, bool]:
        mention = overlaps.predicted[position]
        return mention not in mentions, mention.ranges not in ranges

    return sorted(range(len(overlaps.predicted)), key=rank)


def _distance(gold: Mention, predicted: Mention) -> tuple[bool, int]:
    starts = abs(gold.ranges[0].start - predicted.ranges[0].start)
    ends = abs(gold.ranges[-1].end - predicted.ranges[-1].end)
    # Two discontinuous mentions can begin and end alike and still differ within.
    return gold.ranges != predicted.ranges, starts + ends


def _same_mention(gold: Mention, predicted: Mention) -> bool:
    return gold == predicted


def _same_ranges(gold: Mention, predicted: Mention) -> bool:
    return gold.ranges == predicted.ranges


def _same_type(gold: Mention, predicted: Mention) -> bool:
    return gold.type == predicted.type
