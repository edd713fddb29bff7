"""Warnings about annotation that is missing or not used."""

from __future__ import annotations

from wardround.corpora.gold import gold_warnings
from wardround.text.document import Document, Entity, Range


def notes(*kinds: str) -> list[Document]:
    return [Document("n", "x", tuple(Entity(f"T{i}", kind, (Range(0, 1),)) for i, kind in enumerate(kinds)))]


def test_a_declared_type_without_a_mention_is_named_with_the_nearest() -> None:
    found = list(gold_warnings({"training": notes("DRUG", "DRUG")}, ["Drug"], types_are_chosen=True))
    assert found == [
        "the training notes have no entity of the type 'Drug' – did you mean 'DRUG'?",
        "entities of the training notes are ignored, because their type is not used: 2 of 'DRUG'",
    ]


def test_types_that_the_user_left_out_are_no_news() -> None:
    parts = {"test": notes("Drug", "ADE")}
    assert list(gold_warnings(parts, ["Drug"], types_are_chosen=True)) == []
    assert list(gold_warnings(parts, ["Drug"], types_are_chosen=False)) == [
        "entities of the test notes are ignored, because their type is not used: 1 of 'ADE'"
    ]


def test_notes_without_entities() -> None:
    assert list(gold_warnings({"test": notes(), "dev": []}, ["Drug"], types_are_chosen=True)) == [
        "the test notes have no entity at all: nothing can be learned from them, and every score is 0"
    ]
