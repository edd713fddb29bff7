"""Scores of a de-identification: what stays readable although it had to be hidden.

Leakage ignores under which type something was hidden: a city that was hidden as a name is hidden too. `score_words`
compares words by type instead.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from itertools import pairwise
from typing import Any

from wardround.errors import TextError
from wardround.evaluation.counts import SpanCounts, TypedCounts, merged, ratio
from wardround.evaluation.entity_scores import check_same_text
from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import words_of

__all__ = ["HidingScore", "LeakageScore", "TypeLeakage", "score_hiding", "score_leakage", "score_words"]


@dataclass(frozen=True, slots=True)
class HidingScore:
    """Binary counts of what had to be hidden; `+` adds the counts of notes."""

    words: SpanCounts = field(default_factory=SpanCounts)  # a word counts if at least one of its characters does
    # White space is left out. The difference from `words` shows what stays readable of half-hidden words.
    characters: SpanCounts = field(default_factory=SpanCounts)
    notes: int = 0
    leaking_notes: int = 0  # notes with at least one fully readable word that had to be hidden

    def __add__(self, other: HidingScore) -> HidingScore:
        return HidingScore(
            self.words + other.words,
            self.characters + other.characters,
            self.notes + other.notes,
            self.leaking_notes + other.leaking_notes,
        )

    @property
    def leakage(self) -> float:
        """Share of the notes that leak."""
        return ratio(self.leaking_notes, self.notes)


@dataclass(frozen=True, slots=True)
class TypeLeakage:
    """Counts of the mentions of one type: all, hidden completely, and hidden in part."""

    mentions: int = 0
    hidden: int = 0
    hidden_in_part: int = 0
    leaking_notes: int = 0  # notes with a mention of the type that is not completely hidden

    def __add__(self, other: TypeLeakage) -> TypeLeakage:
        return TypeLeakage(
            self.mentions + other.mentions,
            self.hidden + other.hidden,
            self.hidden_in_part + other.hidden_in_part,
            self.leaking_notes + other.leaking_notes,
        )

    @property
    def recall(self) -> float:
        """Share of the mentions that are completely hidden."""
        return ratio(self.hidden, self.mentions)

    def figures(self) -> dict[str, float]:
        """Return recall and counts as plain values."""
        return {"recall": self.recall, **asdict(self)}

    def as_values(self) -> list[Any]:
        """Return the counts only."""
        return list(astuple(self))


@dataclass(frozen=True, slots=True)
class LeakageScore:
    """Hidden words and characters of any type, and mentions by type; `+` adds the counts of corpora."""

    hiding: HidingScore = field(default_factory=HidingScore)
    by_type: Mapping[str, TypeLeakage] = field(default_factory=dict)
    exposed_notes: int = 0  # notes with at least one mention that is not completely hidden

    def __add__(self, other: LeakageScore) -> LeakageScore:
        return LeakageScore(
            self.hiding + other.hiding,
            merged(self.by_type, other.by_type, TypeLeakage.__add__),
            self.exposed_notes + other.exposed_notes,
        )

    @property
    def mentions(self) -> TypeLeakage:
        """Sum over all types; a leaking note counts once, even if it leaks several types."""
        total = sum(self.by_type.values(), TypeLeakage())
        return TypeLeakage(total.mentions, total.hidden, total.hidden_in_part, self.exposed_notes)

    def as_values(self) -> dict[str, Any]:
        """Return the counts only, as plain values that can be added over sites."""
        return {
            "notes": [self.hiding.notes, self.hiding.leaking_notes, self.exposed_notes],
            "words": list(astuple(self.hiding.words)),
            "characters": list(astuple(self.hiding.characters)),
            "types": {kind: found.as_values() for kind, found in self.by_type.items()},
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> LeakageScore:
        """Restore a score from `as_values()`; raise `ValueError` for anything else."""
        try:
            notes, leaking, exposed = _checked_counts(values["notes"], 3)
            words, characters = (SpanCounts(*_checked_counts(values[unit], 3)) for unit in ("words", "characters"))
            by_type = {str(kind): TypeLeakage(*_checked_counts(row, 4)) for kind, row in values["types"].items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("not the counts of a leakage score") from error
        return cls(HidingScore(words, characters, notes, leaking), by_type, exposed)

    def figures(self) -> dict[str, Any]:
        """Return scores and counts as plain values; `words` and `characters` cover all types together."""
        return {
            "notes": self.hiding.notes,
            "exposed_notes": self.exposed_notes,
            "leaking_notes": self.hiding.leaking_notes,
            "words": self.hiding.words.figures(),
            "characters": self.hiding.characters.figures(),
            "mentions": self.mentions.figures(),
            "types": {kind: found.figures() for kind, found in self.by_type.items()},
        }


def score_leakage(pairs: Iterable[tuple[Document, Document]]) -> LeakageScore:
    """Score (gold, predicted) pairs of notes."""
    total = LeakageScore()
    for gold, predicted in pairs:
        hiding = score_hiding(gold, predicted, words_of(gold))
        covered = {at for entity in predicted.entities for start, end in entity.ranges for at in range(start, end)}
        mentions, hidden, touched = Counter[str](), Counter[str](), Counter[str]()
        for entity in gold.entities:
            characters = {at for start, end in entity.ranges for at in range(start, end)}
            # Blanks and punctuation reveal nothing, so only letters and digits must be covered.
            letters = {at for at in characters if gold.text[at].isalnum()} or characters
            mentions[entity.type] += 1
            hidden[entity.type] += letters <= covered
            touched[entity.type] += bool(letters & covered) and not letters <= covered
        by_type = {
            type_: TypeLeakage(count, hidden[type_], touched[type_], int(hidden[type_] < count))
            for type_, count in sorted(mentions.items())
        }
        total += LeakageScore(hiding, by_type, int(hidden.total() < mentions.total()))
    return total


def score_hiding(gold: Document, predicted: Document, words: Sequence[Range]) -> HidingScore:
    """Count hidden words and characters of one note; `words` are in reading order and do not overlap."""
    _check_words(gold, predicted, words)
    found = _compare(_words_touched(gold.entities, words), _words_touched(predicted.entities, words))
    characters = _compare(_characters_covered(gold), _characters_covered(predicted))
    return HidingScore(found, characters, notes=1, leaking_notes=int(found.fn > 0))


def score_words(gold: Document, predicted: Document, words: Sequence[Range]) -> TypedCounts:
    """Count the words of one note by type; a word in mentions of two types counts under both."""
    _check_words(gold, predicted, words)
    expected, guessed = (
        {(position, entity.type) for entity in document.entities for position in _words_touched((entity,), words)}
        for document in (gold, predicted)
    )
    return TypedCounts.tally(
        gold=(kind for _, kind in expected),
        predicted=(kind for _, kind in guessed),
        correct=(kind for _, kind in expected & guessed),
    )


def _check_words(gold: Document, predicted: Document, words: Sequence[Range]) -> None:
    check_same_text(gold, predicted)
    if any(left.end > right.start for left, right in pairwise(words)):
        raise TextError(f"document {gold.id!r}: words to be counted must be in order and must not overlap")


def _compare(gold: set[int], predicted: set[int]) -> SpanCounts:
    return SpanCounts(len(gold & predicted), len(predicted - gold), len(gold - predicted))


def _words_touched(entities: Iterable[Entity], words: Sequence[Range]) -> set[int]:
    starts, ends = [word.start for word in words], [word.end for word in words]
    return {
        position
        for entity in entities
        for start, end in entity.ranges
        for position in range(bisect_right(ends, start), bisect_left(starts, end))
    }


def _characters_covered(document: Document) -> set[int]:
    return {
        position
        for entity in document.entities
        for start, end in entity.ranges
        for position in range(start, end)
        if not document.text[position].isspace()
    }


def _checked_counts(values: Any, number: int) -> list[int]:
    if not isinstance(values, list) or len(values) != number:
        raise ValueError(f"counts must be a list of {number}")
    if not all(type(count) is int and count >= 0 for count in values):
        raise ValueError("counts must be non-negative whole numbers")
    return values
