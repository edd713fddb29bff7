from __future__ import annotations

import pytest

from wardround.errors import TextError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.relation_scores import gold_entity_counts, score_relations, strict_counts
from wardround.text.document import Document, Entity, Level, Range, Relation

ENTITIES = (
    Entity("T1", "Drug", (Range(0, 5),), concepts=("D1",)),
    Entity("T2", "ADE", (Range(10, 15),), concepts=("D2",)),
    Entity("T3", "Dose", (Range(20, 25),)),
)


def note(*relations: tuple[str, str, str], entities: tuple[Entity, ...] = ENTITIES) -> Document:
    return Document("n", "x" * 30, entities, tuple(Relation(f"R{i}", *r) for i, r in enumerate(relations)))


GOLD = note(("Causes", "T1", "T2"), ("HasDose", "T1", "T3"))


def test_gold_entity_counts_compare_ids() -> None:
    predicted = note(("Causes", "T1", "T2"), ("HasDose", "T2", "T3"))
    expected = TypedCounts({"Causes": SpanCounts(1, 0, 0), "HasDose": SpanCounts(0, 1, 1)})
    assert gold_entity_counts(GOLD, predicted) == strict_counts(GOLD, predicted) == expected
    assert expected.micro.f1 == pytest.approx(0.5)


def test_a_relation_is_directed_and_typed() -> None:
    assert strict_counts(GOLD, note(("Causes", "T2", "T1")))["Causes"] == SpanCounts(0, 1, 1)
    assert strict_counts(GOLD, note(("Treats", "T1", "T2")))["Treats"] == SpanCounts(0, 1, 0)


def test_strict_ignores_ids_and_needs_types_and_ranges() -> None:
    same = (Entity("a", "Drug", (Range(0, 5),)), Entity("b", "ADE", (Range(10, 15),)))
    assert strict_counts(GOLD, note(("Causes", "a", "b"), entities=same))["Causes"] == SpanCounts(1, 0, 0)
    shifted = (Entity("a", "Drug", (Range(0, 4),)), Entity("b", "ADE", (Range(10, 15),)))
    assert strict_counts(GOLD, note(("Causes", "a", "b"), entities=shifted))["Causes"] == SpanCounts(0, 1, 1)
    retyped = (Entity("a", "Drug", (Range(0, 5),)), Entity("b", "Dose", (Range(10, 15),)))
    assert strict_counts(GOLD, note(("Causes", "a", "b"), entities=retyped))["Causes"] == SpanCounts(0, 1, 1)


def test_gold_entity_counts_refuse_other_entities() -> None:
    moved = (Entity("T1", "Drug", (Range(0, 4),)), *ENTITIES[1:])
    with pytest.raises(TextError, match="other entities than gold"):
        gold_entity_counts(GOLD, note(("Causes", "T1", "T2"), entities=moved))


def test_the_negative_class_is_ignored() -> None:
    gold = note(("Causes", "T1", "T2"), ("None", "T1", "T3"))
    predicted = note(("None", "T1", "T2"), ("None", "T1", "T3"))
    assert gold_entity_counts(gold, predicted, {"None"}) == TypedCounts({"Causes": SpanCounts(0, 0, 1)})
    assert gold_entity_counts(gold, predicted).micro == SpanCounts(1, 1, 1)


def test_concepts_are_compared_by_id_and_not_as_mentions() -> None:
    def concept(head: str, tail: str) -> Document:
        return Document("n", "x" * 30, ENTITIES, (Relation("R", "Causes", head, tail, Level.CONCEPT),))

    assert strict_counts(concept("D1", "D2"), concept("D1", "D2"))["Causes"] == SpanCounts(1, 0, 0)
    assert strict_counts(concept("D1", "D2"), concept("D2", "D1"))["Causes"] == SpanCounts(0, 1, 1)
    assert strict_counts(concept("D1", "D2"), note(("Causes", "T1", "T2")))["Causes"] == SpanCounts(0, 1, 1)


def test_duplicates_count_once() -> None:
    assert strict_counts(GOLD, note(("Causes", "T1", "T2"), ("Causes", "T1", "T2")))["Causes"] == SpanCounts(1, 0, 0)


def test_corpus_and_addition() -> None:
    pairs = [(GOLD, GOLD), (GOLD, note())]
    score = score_relations(pairs, scorer=gold_entity_counts, negative={"HasDose"})
    assert score.counts == TypedCounts({"Causes": SpanCounts(1, 0, 1)})
    assert score.counts.micro.f1 == pytest.approx(2 / 3)
    assert len(score.by_document) == 2
    assert (score + score).counts.micro == SpanCounts(2, 0, 2)
    assert score_relations(pairs).counts.micro == SpanCounts(2, 0, 2)


def test_different_texts_are_refused() -> None:
    with pytest.raises(TextError, match="different texts"):
        strict_counts(GOLD, Document("n", "y" * 30))
