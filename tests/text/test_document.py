from __future__ import annotations

import dataclasses

import pytest

from wardround.errors import TextError
from wardround.text.document import Document, Entity, Level, Range, Relation

TEXT = "secret words here"


def entity(id_: str = "T1", *ranges: tuple[int, int], type_: str = "Drug") -> Entity:
    return Entity(id_, type_, tuple(Range(*r) for r in ranges or ((0, 6),)))


def test_ranges_overlap_only_if_they_share_a_character() -> None:
    assert Range(0, 3).overlaps(Range(2, 5))
    assert not Range(0, 3).overlaps(Range(3, 5))
    assert not Range(3, 5).overlaps(Range(0, 3))


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ((), "entity 'T1' has no character range"),
        (((4, 4),), "entity 'T1': range 4-4 is empty"),
        (((4, 2),), "entity 'T1': range 4-2 is empty"),
        (((-1, 2),), "entity 'T1': range -1-2 starts before 0"),
        (((4, 6), (0, 2)), "entity 'T1': range 0-2 starts before 6"),
        (((0, 4), (3, 6)), "entity 'T1': range 3-6 starts before 4"),
    ],
)
def test_entity_with_wrong_ranges_is_refused(ranges: tuple[Range, ...], message: str) -> None:
    with pytest.raises(TextError, match=f"^{message}$"):
        Entity("T1", "Drug", ranges)


def test_an_entity_or_relation_needs_a_type() -> None:
    with pytest.raises(TextError, match="entity 'T1' has no type"):
        entity(type_="")
    with pytest.raises(TextError, match="relation 'R1' has no type"):
        Relation("R1", "", "T1", "T2")


def test_plain_pairs_become_ranges() -> None:
    assert Entity("T1", "Drug", ((0, 6),)).ranges[0].overlaps(Range(5, 7))  # type: ignore[arg-type]


def test_a_discontinuous_entity() -> None:
    parted = entity("T1", (0, 6), (13, 17))
    assert (parted.start, parted.end, parted.envelope) == (0, 17, Range(0, 17))
    assert parted.is_discontinuous
    assert parted.text_in(TEXT) == "secret here"
    # The gap is not part of the mention.
    assert not parted.overlaps(entity("T2", (7, 12)))
    assert parted.overlaps(entity("T2", (7, 14)))
    assert not entity().is_discontinuous


def test_adjacent_ranges_are_in_order() -> None:
    assert entity("T1", (0, 3), (3, 6)).end == 6


@pytest.mark.parametrize(
    ("entities", "message"),
    [
        ((entity(), entity()), "document 'n1': two entities have the id 'T1'"),
        ((entity("T3", (10, 18)),), "document 'n1': entity 'T3' ends at 18, the text has 17 characters"),
    ],
)
def test_entities_must_fit_their_document(entities: tuple[Entity, ...], message: str) -> None:
    with pytest.raises(TextError, match=f"^{message}$"):
        Document("n1", TEXT, entities)


def test_an_entity_may_end_where_the_text_ends() -> None:
    assert Document("n1", TEXT, (entity("T1", (13, 17)),)).entities[0].text_in(TEXT) == "here"


def test_relation_ends_must_exist_in_the_document() -> None:
    pair = (
        Entity("T1", "Drug", (Range(0, 6),), concepts=("C1",)),
        Entity("T2", "ADE", (Range(7, 12),), concepts=("C2",)),
    )
    mentions = Relation("R1", "Causes", "T1", "T2")
    concepts = Relation("R2", "Causes", "C1", "C2", Level.CONCEPT)
    assert len(Document("n1", TEXT, pair, (mentions, concepts)).relations) == 2
    with pytest.raises(TextError, match="'n1': relation 'R3' names 'C1', which is not a mention of the document"):
        Document("n1", TEXT, pair, (Relation("R3", "Causes", "T2", "C1"),))
    with pytest.raises(TextError, match="relation 'R4' names 'T1', which is not a concept of the document"):
        Document("n1", TEXT, pair, (Relation("R4", "Causes", "T1", "C1", Level.CONCEPT),))


@pytest.mark.parametrize("name", ["words", "sentences"])
@pytest.mark.parametrize("ranges", [((3, 6), (0, 2)), ((0, 4), (3, 6)), ((2, 2),), ((10, 18),), ((-2, 3),)])
def test_words_and_sentences_must_be_in_order_and_inside_the_text(
    name: str, ranges: tuple[tuple[int, int], ...]
) -> None:
    with pytest.raises(TextError, match=f"document 'n1': {name} are not in order at "):
        Document("n1", TEXT, **{name: tuple(Range(*r) for r in ranges)})  # type: ignore[arg-type]


def test_repr_and_errors_contain_no_text() -> None:
    remark = Entity("T1", "Drug", (Range(0, 6),), note="the note says secret")
    document = Document("n1", TEXT, (remark,))
    assert repr(document) == "Document(id='n1', attributes=())"
    assert "secret" not in repr(remark)
    with pytest.raises(TextError) as caught:
        Document("n1", TEXT, (entity("T1", (0, 99)),))
    assert "secret" not in str(caught.value)


def test_everything_is_frozen() -> None:
    document = Document("n1", TEXT, (entity(),))
    for thing in (document, document.entities[0], Relation("R1", "Causes", "T1", "T1")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            thing.id = "other"  # type: ignore[misc]


def test_with_entities_drops_the_relations() -> None:
    document = Document(
        "n1", TEXT, (entity(),), (Relation("R1", "Is", "T1", "T1"),), (Range(0, 6),), (Range(0, 17),), (("age", "7"),)
    )
    other = document.with_entities([entity("T9", (7, 12))])
    assert [e.id for e in other.entities] == ["T9"]
    assert other.relations == ()
    assert (other.text, other.words, other.sentences) == (TEXT, document.words, document.sentences)
    assert other.attributes == (("age", "7"),)


def test_two_relations_with_the_same_id_are_refused() -> None:
    pair = (entity("T1", (0, 6)), entity("T2", (7, 12)))
    relations = (Relation("R1", "Causes", "T1", "T2"), Relation("R1", "Treats", "T2", "T1"))
    with pytest.raises(TextError, match=r"^document 'n1': two relations have the id 'R1'$"):
        Document("n1", TEXT, pair, relations)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_that_is_no_probability_is_refused(score: float) -> None:
    with pytest.raises(TextError, match=r"entity 'T1': the score .* is not a probability"):
        Entity("T1", "Drug", (Range(0, 1),), score=score)
    with pytest.raises(TextError, match=r"relation 'R1': the score .* is not a probability"):
        Relation("R1", "causes", "T1", "T2", score=score)


def test_a_score_is_no_part_of_what_is_annotated() -> None:
    assert Entity("T1", "Drug", (Range(0, 1),), score=0.5) == Entity("T1", "Drug", (Range(0, 1),))
    assert Relation("R1", "causes", "T1", "T2", score=0.5) == Relation("R1", "causes", "T1", "T2")
