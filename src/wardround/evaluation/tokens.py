"""What a de-identification leaves readable: words and characters, hidden or not; and words by the type they have."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from wardround.errors import TextError
from wardround.evaluation.counts import SpanCounts, TypedCounts, ratio
from wardround.evaluation.spans import check_same_text
from wardround.text.document import Document, Entity, Range

__all__ = ["HidingScore", "score_hiding", "score_words"]


@dataclass(frozen=True, slots=True)
class HidingScore:
    """Binary counts of what had to be hidden; `+` joins notes."""

    words: SpanCounts = field(default_factory=SpanCounts)  # a word counts as soon as one of its characters does
    characters: SpanCounts = field(
        default_factory=SpanCounts
    )  # blanks left out; shows what is lost where half a word was hidden
    notes: int = 0
    leaking_notes: int = 0  # notes with at least one word that had to be hidden and is not touched

    def __add__(self, other: HidingScore) -> HidingScore:
        return HidingScore(
            self.words + other.words,
            self.characters + other.characters,
            self.notes + other.notes,
            self.leaking_notes + other.leaking_notes,
        )

    @property
    def leakage(self) -> float:
        """The part of all notes that leaks."""
        return ratio(self.leaking_notes, self.notes)


def score_hiding(gold: Document, predicted: Document, words: Sequence[Range]) -> HidingScore:
    """Count one note; `words` are its words in reading order, none overlapping another."""
    _check(gold, predicted, words)
    found = _compare(_touched(gold.entities, words), _touched(predicted.entities, words))
    characters = _compare(_covered(gold), _covered(predicted))
    return HidingScore(found, characters, notes=1, leaking_notes=int(found.fn > 0))


def score_words(gold: Document, predicted: Document, words: Sequence[Range]) -> TypedCounts:
    """Count the words of one note by type; a word that two mentions of different types touch counts under both."""
    _check(gold, predicted, words)
    right, guessed = (
        {(position, entity.type) for entity in document.entities for position in _touched((entity,), words)}
        for document in (gold, predicted)
    )
    return TypedCounts.tally(
        gold=(kind for _, kind in right),
        predicted=(kind for _, kind in guessed),
        right=(kind for _, kind in right & guessed),
    )


def _check(gold: Document, predicted: Document, words: Sequence[Range]) -> None:
    check_same_text(gold, predicted)
    if any(left.end > right.start for left, right in pairwise(words)):
        raise TextError(f"document {gold.id!r}: words to be counted must be in order and must not overlap")


def _compare(gold: set[int], predicted: set[int]) -> SpanCounts:
    return SpanCounts(len(gold & predicted), len(predicted - gold), len(gold - predicted))


def _touched(entities: Iterable[Entity], words: Sequence[Range]) -> set[int]:
    starts, ends = [word.start for word in words], [word.end for word in words]
    return {
        position
        for entity in entities
        for start, end in entity.ranges
        for position in range(bisect_right(ends, start), bisect_left(starts, end))
    }


def _covered(document: Document) -> set[int]:
    return {
        position
        for entity in document.entities
        for start, end in entity.ranges
        for position in range(start, end)
        if not document.text[position].isspace()
    }
