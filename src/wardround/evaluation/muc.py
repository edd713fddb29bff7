"""The MUC categories under four matching modes, with nervaluate's names and definitions.

| mode       | correct                          | overlapping, but not correct |
| ---------- | -------------------------------- | ---------------------------- |
| `strict`   | type and ranges equal            | incorrect                    |
| `exact`    | ranges equal, any type           | incorrect                    |
| `partial`  | ranges equal, any type           | partial, counts half         |
| `ent_type` | type equal, any shared character | incorrect                    |

A prediction that overlaps no free gold mention is spurious; a gold mention that stays free is missed. Predictions are
matched in reading order. Each takes the nearest correct gold mention, or else the first one it overlaps. Scores by
type compare the mentions of that type only, so `overall` is not their sum.

There are three differences from nervaluate. None matters if mentions of one side neither overlap nor repeat and none is
longer than 100 characters. First, a prediction with an equal gold mention is matched first, so that a nested neighbour
cannot take that gold mention. Second, two entities with the same type and ranges count once. Third, one shared
character is an overlap, where nervaluate requires one percent of the gold mention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from wardround.evaluation.counts import merged, ratio
from wardround.evaluation.overlaps import Mention, Overlaps

__all__ = ["MATCHING_MODES", "MucCounts", "MucModes", "MucScore", "score_muc"]

MATCHING_MODES = ("strict", "exact", "partial", "ent_type")


@dataclass(frozen=True, slots=True)
class MucCounts:
    """Counts of the five categories of a mention."""

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
        """Number of gold mentions."""
        return self.correct + self.incorrect + self.partial + self.missed

    @property
    def actual(self) -> int:
        """Number of predicted mentions."""
        return self.correct + self.incorrect + self.partial + self.spurious

    @property
    def precision(self) -> float:
        """Correct predictions over all predictions; a partial one counts half."""
        return ratio(self.correct + self.partial / 2, self.actual)

    @property
    def recall(self) -> float:
        """Gold mentions found over all gold mentions; a partial one counts half."""
        return ratio(self.correct + self.partial / 2, self.possible)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return ratio(2 * self.correct + self.partial, self.actual + self.possible)


@dataclass(frozen=True, slots=True)
class MucModes:
    """The categories counted in each matching mode."""

    strict: MucCounts = MucCounts()
    exact: MucCounts = MucCounts()
    partial: MucCounts = MucCounts()
    ent_type: MucCounts = MucCounts()

    def __add__(self, other: MucModes) -> MucModes:
        return MucModes(
            self.strict + other.strict,
            self.exact + other.exact,
            self.partial + other.partial,
            self.ent_type + other.ent_type,
        )


@dataclass(frozen=True, slots=True)
class MucScore:
    """Counts in each matching mode, over all types and for each type."""

    overall: MucModes = MucModes()
    by_type: Mapping[str, MucModes] = field(default_factory=dict)

    def __add__(self, other: MucScore) -> MucScore:
        return MucScore(self.overall + other.overall, merged(self.by_type, other.by_type, MucModes.__add__))


def score_muc(overlaps: Overlaps) -> MucScore:
    """Count the categories of one document."""
    types = sorted({mention.type for mention in (*overlaps.gold, *overlaps.predicted)})
    return MucScore(_modes(overlaps), {type_: _modes(overlaps.of_type(type_)) for type_ in types})


def _modes(overlaps: Overlaps) -> MucModes:
    same = _match(overlaps, lambda gold, predicted: gold == predicted)
    same_ranges = _match(overlaps, lambda gold, predicted: gold.ranges == predicted.ranges)
    same_type = _match(overlaps, lambda gold, predicted: gold.type == predicted.type)
    return MucModes(
        strict=same,
        exact=same_ranges,
        partial=replace(same_ranges, incorrect=0, partial=same_ranges.incorrect),
        ent_type=same_type,
    )


def _match(overlaps: Overlaps, is_correct: Callable[[Mention, Mention], bool]) -> MucCounts:
    """Match predictions with gold mentions; an overlap that is not correct counts as incorrect."""
    mentions, ranges = set(overlaps.gold), {mention.ranges for mention in overlaps.gold}

    def equal_first(position: int) -> tuple[bool, bool]:
        mention = overlaps.predicted[position]
        return mention not in mentions, mention.ranges not in ranges

    correct, taken = 0, set[int]()
    for position in sorted(range(len(overlaps.predicted)), key=equal_first):
        mention = overlaps.predicted[position]
        free = [gold for gold in overlaps.shared[position] if gold not in taken]
        fitting = [gold for gold in free if is_correct(overlaps.gold[gold], mention)]
        if fitting:
            correct += 1
            taken.add(min(fitting, key=lambda gold: _distance(overlaps.gold[gold], mention)))
        elif free:
            taken.add(free[0])
    return MucCounts(
        correct=correct,
        incorrect=len(taken) - correct,
        missed=len(overlaps.gold) - len(taken),
        spurious=len(overlaps.predicted) - len(taken),
    )


def _distance(gold: Mention, predicted: Mention) -> tuple[bool, int]:
    starts = abs(gold.ranges[0].start - predicted.ranges[0].start)
    ends = abs(gold.ranges[-1].end - predicted.ranges[-1].end)
    # Two discontinuous mentions can have the same start and end and still differ in between.
    return gold.ranges != predicted.ranges, starts + ends
