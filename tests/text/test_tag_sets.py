from __future__ import annotations

import pytest

from wardround.errors import TextError
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.tag_schemes import BIO, BIOES
from wardround.text.tag_sets import TagSet

DRUG = Entity("T1", "Drug", (Range(0, 1),), concepts=("C1",))
ADE = Entity("T2", "ADE", (Range(2, 3),), concepts=("C2",))
DOSE = Entity("T3", "Dose", (Range(4, 5),), concepts=("C1",))
NOTE = Document(
    "n1",
    "a b c",
    (DRUG, ADE, DOSE),
    (
        Relation("R1", "Causes", "T1", "T2"),
        Relation("R2", "Of", "T3", "T1"),
        Relation("R3", "Causes", "C1", "C2", Level.CONCEPT),
        Relation("R4", "Is", "C1", "C1", Level.CONCEPT),
    ),
)


def test_a_type_is_named_once_and_has_a_name() -> None:
    with pytest.raises(TextError, match="names a type twice: Drug, Drug"):
        TagSet(("Drug", "Drug"))
    with pytest.raises(TextError, match="a type without a name"):
        TagSet(("Drug", ""))


def test_tags_keep_the_order_of_the_types() -> None:
    types = TagSet(("Drug", "ADE"))
    assert types.tags(BIO) == ("O", "B-Drug", "I-Drug", "B-ADE", "I-ADE")
    assert types.tags(BIOES)[:5] == ("O", "B-Drug", "I-Drug", "E-Drug", "S-Drug")


def test_the_types_of_documents_are_sorted() -> None:
    assert TagSet.of([NOTE, Document("n2", "", ())]) == TagSet(("ADE", "Dose", "Drug"))
    assert TagSet.of([]) == TagSet(())


def test_mentions_of_other_types_are_counted_by_name() -> None:
    assert TagSet(("Drug",)).others([NOTE, NOTE]) == {"ADE": 2, "Dose": 2}
    assert list(TagSet(()).others([NOTE])) == ["ADE", "Dose", "Drug"]
    assert TagSet(("Drug", "ADE", "Dose")).others([NOTE]) == {}


def test_union_appends_what_is_new() -> None:
    assert TagSet(("Drug", "ADE")) | TagSet(("Dose", "Drug")) == TagSet(("Drug", "ADE", "Dose"))
    assert "Drug" in TagSet(("Drug",))
    assert "ADE" not in TagSet(("Drug",))


def test_restriction_keeps_the_relations_that_still_stand() -> None:
    kept = TagSet(("Drug", "Dose")).restrict(NOTE)
    assert [entity.id for entity in kept.entities] == ["T1", "T3"]
    # C2 has lost its only mention; C1 keeps two.
    assert [relation.id for relation in kept.relations] == ["R2", "R4"]
    nothing = TagSet(()).restrict(NOTE)
    assert (nothing.entities, nothing.relations) == ((), ())


def test_several_names_may_become_one() -> None:
    renamed = TagSet.rename(NOTE, {"Drug": "Dose", "Dose": "Drug", "ADE": "Drug"})
    assert [entity.type for entity in renamed.entities] == ["Dose", "Drug", "Drug"]


def test_renaming_leaves_other_types_and_relations_alone() -> None:
    renamed = TagSet.rename(NOTE, {"Drug": "Medication"})
    assert [entity.type for entity in renamed.entities] == ["Medication", "ADE", "Dose"]
    assert renamed.relations == NOTE.relations
