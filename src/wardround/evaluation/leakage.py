"""Leakage of a de-identification: what stays readable, over a corpus, by type of what had to be hidden.

Whether something is hidden does not depend on the type it was hidden under: a city taken for a name is hidden too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from wardround.evaluation.counts import SpanCounts, merged, ratio
from wardround.evaluation.tokens import HidingScore, score_hiding
from wardround.text.document import Document, Entity
from wardround.text.words import words_of

__all__ = ["LeakageScore", "TypeLeakage", "score_leakage"]


@dataclass(frozen=True, slots=True)
class TypeLeakage:
    """Mentions of one type: how many there are, how many are hidden to the last letter, and in part."""

    mentions: int = 0
    hidden: int = 0
    hidden_in_part: int = 0
    leaking_notes: int = 0  # notes with a mention of the type that is not hidden whole

    def __add__(self, other: TypeLeakage) -> TypeLeakage:
        return TypeLeakage(
            self.mentions + other.mentions,
            self.hidden + other.hidden,
            self.hidden_in_part + other.hidden_in_part,
            self.leaking_notes + other.leaking_notes,
        )

    @property
    def recall(self) -> float:
        """The part of the mentions that is hidden whole."""
        return ratio(self.hidden, self.mentions)

    def figures(self) -> dict[str, float]:
        """Recall and counts as plain values."""
        return {"recall": self.recall, **asdict(self)}

    def as_values(self) -> list[Any]:
        """The counts alone."""
        return list(astuple(self))


@dataclass(frozen=True, slots=True)
class LeakageScore:
    """Words and characters hidden, whatever their type, and mentions by type; `+` joins corpora."""

    hiding: HidingScore = field(default_factory=HidingScore)
    by_type: Mapping[str, TypeLeakage] = field(default_factory=dict)
    exposed_notes: int = 0  # notes with at least one mention that is not hidden whole

    def __add__(self, other: LeakageScore) -> LeakageScore:
        return LeakageScore(
            self.hiding + other.hiding,
            merged(self.by_type, other.by_type, TypeLeakage.__add__),
            self.exposed_notes + other.exposed_notes,
        )

    @property
    def mentions(self) -> TypeLeakage:
        """All types in one; its leaking notes are counted once, whatever types they miss."""
        total = sum(self.by_type.values(), TypeLeakage())
        return TypeLeakage(total.mentions, total.hidden, total.hidden_in_part, self.exposed_notes)

    def as_values(self) -> dict[str, Any]:
        """The counts alone, which add over sites; `from_values` reads them."""
        return {
            "notes": [self.hiding.notes, self.hiding.leaking_notes, self.exposed_notes],
            "words": list(astuple(self.hiding.words)),
            "characters": list(astuple(self.hiding.characters)),
            "types": {kind: found.as_values() for kind, found in self.by_type.items()},
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> LeakageScore:
        """What `as_values` gave; anything else is a `ValueError`."""
        try:
            notes, leaking, exposed = _counts(values["notes"], 3)
            words, characters = (SpanCounts(*_counts(values[unit], 3)) for unit in ("words", "characters"))
            by_type = {str(kind): TypeLeakage(*_counts(row, 4)) for kind, row in values["types"].items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("no counts of leakage") from error
        return cls(HidingScore(words, characters, notes, leaking), by_type, exposed)

    def figures(self) -> dict[str, Any]:
        """Scores and counts as plain values: `words` and `characters` are of what identifies, whatever its type."""
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
    """Gold and predicted notes, pair by pair."""
    return sum((_score_note(gold, predicted) for gold, predicted in pairs), LeakageScore())


def _score_note(gold: Document, predicted: Document) -> LeakageScore:
    hiding = score_hiding(gold, predicted, words_of(gold))
    covered = {at for entity in predicted.entities for start, end in entity.ranges for at in range(start, end)}
    mentions, hidden, touched = Counter[str](), Counter[str](), Counter[str]()
    for entity in gold.entities:
        letters = _letters(entity, gold.text)
        mentions[entity.type] += 1
        hidden[entity.type] += letters <= covered
        touched[entity.type] += bool(letters & covered) and not letters <= covered
    by_type = {
        type_: TypeLeakage(count, hidden[type_], touched[type_], int(hidden[type_] < count))
        for type_, count in sorted(mentions.items())
    }
    return LeakageScore(hiding, by_type, int(hidden.total() < mentions.total()))


def _letters(entity: Entity, text: str) -> set[int]:
    """Where the mention has letters and digits; blanks and punctuation tell nothing."""
    found = {at for start, end in entity.ranges for at in range(start, end)}
    return {at for at in found if text[at].isalnum()} or found


def _counts(values: Any, number: int) -> list[int]:
    if not isinstance(values, list) or len(values) != number:
        raise ValueError(f"counts are a list of {number}")
    if not all(type(count) is int and count >= 0 for count in values):
        raise ValueError("counts are whole numbers")
    return values
