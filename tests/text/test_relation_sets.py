from __future__ import annotations

import json
from typing import Any

import pytest

from wardround.errors import TextError
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType

RELATIONS = RelationSet((RelationType("causes", (("Drug", "ADE"),)), RelationType("dose-of")))


def document(*relations: Relation) -> Document:
    entities = (
        Entity("T1", "Drug", (Range(0, 1),), concepts=("D1",)),
        Entity("T2", "ADE", (Range(1, 2),), concepts=("C1", "C2")),
        Entity("T3", "Gene", (Range(2, 3),), concepts=("C1",)),
    )
    return Document("n", "abc", entities, relations)


def test_negative_class_is_first() -> None:
    assert RELATIONS.names == ("none", "causes", "dose-of")


def test_allowed_entity_types() -> None:
    assert RELATIONS.allowed("Drug", "ADE") == ("causes", "dose-of")
    assert RELATIONS.allowed("ADE", "Drug") == ("dose-of",)
    undirected = RelationSet((RelationType("causes", (("Drug", "ADE"),)),), directed=False)
    assert undirected.allowed("ADE", "Drug") == ("causes",)
    assert undirected.allowed("ADE", "ADE") == ()


def test_relation_set_of_documents() -> None:
    seen = document(Relation("R1", "b", "T1", "T2"), Relation("R2", "a", "T2", "T1"), Relation("R3", "b", "T3", "T2"))
    found = RelationSet.of([seen, document(Relation("R1", "none", "T1", "T3"))])
    ends = (("Drug", "ADE"), ("Gene", "ADE"))
    assert found == RelationSet((RelationType("a", (("ADE", "Drug"),)), RelationType("b", ends)))


def test_relation_set_between_concepts() -> None:
    # C1 is named by a mention of type ADE and by one of type Gene.
    found = RelationSet.of([document(Relation("R1", "a", "D1", "C1", Level.CONCEPT))], directed=False)
    ends = (("Drug", "ADE"), ("Drug", "Gene"))
    assert found == RelationSet((RelationType("a", ends),), directed=False, level=Level.CONCEPT)


def test_only_undirected_relations_get_ordered_ends() -> None:
    """Mentions are ordered by position, concepts alphabetically."""
    turned = document(Relation("R1", "causes", "T3", "T1"), Relation("R2", "causes", "T1", "T2"))
    assert RELATIONS.with_ordered_ends(turned) == turned
    undirected = RelationSet(RELATIONS.types, directed=False)
    assert [(r.head, r.tail) for r in undirected.with_ordered_ends(turned).relations] == [("T1", "T3"), ("T1", "T2")]
    between = Relation("R1", "causes", "D1", "C2", Level.CONCEPT), Relation("R2", "causes", "C1", "D1", Level.CONCEPT)
    concepts = RelationSet(RELATIONS.types, directed=False, level=Level.CONCEPT)
    assert [(r.head, r.tail) for r in concepts.with_ordered_ends(document(*between)).relations] == [
        ("C2", "D1"),
        ("C1", "D1"),
    ]


def test_invalid_sets_are_refused() -> None:
    with pytest.raises(TextError, match="both mentions and concepts"):
        RelationSet.of([document(Relation("R1", "a", "T1", "T2"), Relation("R2", "a", "D1", "C1", Level.CONCEPT))])
    with pytest.raises(TextError, match="has no type"):
        RelationSet.of([document()])
    with pytest.raises(TextError, match="has a class twice: none, none"):
        RelationSet((RelationType("none"),))
    with pytest.raises(TextError, match="without a name"):
        RelationSet((RelationType(""),))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("level", Level)
def test_json_round_trip(directed: bool, level: Level) -> None:
    relations = RelationSet(RELATIONS.types, "nothing", directed, level)
    assert RelationSet.from_values(json.loads(json.dumps(relations.as_values()))) == relations


@pytest.mark.parametrize(
    "change",
    [
        {"level": "note"},
        {"directed": 1},
        {"negative": None},
        {"types": {}},
        {"types": [{"name": "a"}]},
        {"types": [{"name": 1, "ends": []}]},
        {"types": [{"name": "a", "ends": [["Drug"]]}]},
        {"types": [{"name": "a", "ends": [["Drug", 1]]}]},
        {"more": 1},
    ],
)
def test_invalid_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TextError, match="not a relation set"):
        RelationSet.from_values(RELATIONS.as_values() | change)
    with pytest.raises(TextError, match="not a relation set"):
        RelationSet.from_values(None)
