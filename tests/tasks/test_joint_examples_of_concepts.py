from __future__ import annotations

from dataclasses import replace

import pytest

from wardround.errors import TextError
from wardround.tasks.joint_examples import relate_mentions
from wardround.tasks.relation_instances import PairRules, RelationCounts
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType

#       0         1         2         3         4         5         6
#       0123456789012345678901234567890123456789012345678901234567890123456789
TEXT = "Aspirin, rash and rash. Aspirin again. No more. Fever and itching."
ENTITIES = (
    Entity("T1", "Drug", (Range(0, 7),), concepts=("A",)),
    Entity("T2", "ADE", (Range(9, 13),), concepts=("R",)),
    Entity("T3", "ADE", (Range(18, 22),), concepts=("R",)),
    Entity("T4", "Drug", (Range(24, 31),), concepts=("A",)),
    Entity("T5", "ADE", (Range(48, 53),), concepts=("F",)),
    Entity("T6", "ADE", (Range(58, 65),), concepts=("I", "P")),
)
CAUSES = RelationSet((RelationType("causes", (("Drug", "ADE"),)), RelationType("with")), level=Level.CONCEPT)


def related(*relations: tuple[str, str, str]) -> Document:
    named = (Relation(f"C{n}", *ends, Level.CONCEPT) for n, ends in enumerate(relations, start=1))
    return Document("n", TEXT, ENTITIES, tuple(named))


def found(document: Document) -> list[tuple[str, str, str, str]]:
    assert all(relation.level is Level.MENTION for relation in document.relations)
    return [(relation.id, relation.type, relation.head, relation.tail) for relation in document.relations]


def test_a_relation_holds_between_all_mentions_within_the_window() -> None:
    one, counts = relate_mentions(related(("causes", "A", "R")), PairRules(CAUSES))
    assert found(one) == [("R1", "causes", "T1", "T2"), ("R2", "causes", "T1", "T3")]
    assert (counts.kept, counts.lost) == (1, 0)
    two, _ = relate_mentions(related(("causes", "A", "R")), PairRules(CAUSES, window=2))
    assert [ends[2:] for ends in found(two)] == [("T1", "T2"), ("T1", "T3"), ("T4", "T2"), ("T4", "T3")]
    assert (two.entities, two.text) == (ENTITIES, TEXT)


def test_a_relation_without_a_pair_stays_between_the_nearest_mentions() -> None:
    document, counts = relate_mentions(related(("causes", "A", "F"), ("causes", "A", "R")), PairRules(CAUSES))
    # The second aspirin is the nearer, and two sentences away from the fever.
    assert found(document)[-1] == ("R3", "causes", "T4", "T5")
    assert (counts.kept, counts.out_of_window) == (1, 1)
    assert found(relate_mentions(related(("causes", "R", "A")), PairRules(CAUSES))[0]) == [
        ("R1", "causes", "T2", "T1")  # against the types, and as near as the second rash is to the second aspirin
    ]


def test_two_relations_of_the_same_concepts() -> None:
    document, counts = relate_mentions(related(("causes", "A", "R"), ("with", "A", "R")), PairRules(CAUSES))
    assert [ends[1:] for ends in found(document)] == [
        ("causes", "T1", "T2"),
        ("causes", "T1", "T3"),
        ("with", "T1", "T2"),
    ]
    assert (counts.kept, counts.doubled) == (1, 1)


def test_relations_without_two_mentions_are_dropped() -> None:
    document, counts = relate_mentions(related(("with", "I", "P"), ("with", "R", "R")), PairRules(CAUSES))
    assert found(document) == []
    assert (counts.kept, counts.overlapping, counts.to_itself) == (0, 1, 1)


def test_relations_of_unknown_types_are_counted() -> None:
    document, counts = relate_mentions(related(("heals", "A", "R")), PairRules(CAUSES))
    assert found(document) == []
    assert counts.unknown_type == 1


def test_undirected_relations_are_in_text_order() -> None:
    rules = PairRules(replace(CAUSES, directed=False), window=2)
    document, _ = relate_mentions(related(("causes", "R", "A"), ("causes", "F", "A")), rules)
    assert [ends[2:] for ends in found(document)] == [
        ("T1", "T2"),
        ("T1", "T3"),
        ("T2", "T4"),
        ("T3", "T4"),
        ("T4", "T5"),  # three sentences apart: the nearest
    ]


def test_relations_between_mentions_are_refused() -> None:
    document = Document("n", TEXT, ENTITIES, (Relation("M1", "causes", "T1", "T2"),))
    with pytest.raises(TextError, match="relation 'M1' is between mentions"):
        relate_mentions(document, PairRules(CAUSES))


def test_documents_without_relations() -> None:
    empty = Document("e", "")
    assert relate_mentions(empty, PairRules(CAUSES)) == (empty, RelationCounts())
