from __future__ import annotations

from itertools import product

import pytest

from wardround.errors import TextError
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.tag_schemes import BIO, BIOES, IOB1, TagScheme, WordSpan
from wardround.text.tag_sets import TagSet, complete_annotation

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


def test_types_must_be_unique_and_named() -> None:
    with pytest.raises(TextError, match="has a type twice: Drug, Drug"):
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
    assert TagSet(("Drug",)).count_other_types([NOTE, NOTE]) == {"ADE": 2, "Dose": 2}
    assert list(TagSet(()).count_other_types([NOTE])) == ["ADE", "Dose", "Drug"]
    assert TagSet(("Drug", "ADE", "Dose")).count_other_types([NOTE]) == {}


def test_union_appends_new_types() -> None:
    assert TagSet(("Drug", "ADE")) | TagSet(("Dose", "Drug")) == TagSet(("Drug", "ADE", "Dose"))
    assert "Drug" in TagSet(("Drug",))
    assert "ADE" not in TagSet(("Drug",))


def test_restriction_keeps_relations_between_kept_entities() -> None:
    kept = TagSet(("Drug", "Dose")).restrict(NOTE)
    assert [entity.id for entity in kept.entities] == ["T1", "T3"]
    # The only mention of C2 was removed; C1 keeps two.
    assert [relation.id for relation in kept.relations] == ["R2", "R4"]
    nothing = TagSet(()).restrict(NOTE)
    assert (nothing.entities, nothing.relations) == ((), ())


def test_only_the_types_of_a_site_are_kept_and_the_relations_among_them() -> None:
    entities = (
        Entity("T1", "Drug", (Range(0, 1),), concepts=("c1",)),
        Entity("T2", "ADE", (Range(1, 2),), concepts=("c2",)),
        Entity("T3", "Drug", (Range(2, 3),)),
    )
    relations = (
        Relation("R1", "x", "T1", "T2"),
        Relation("R2", "x", "T1", "T3"),
        Relation("R3", "x", "c1", "c1", Level.CONCEPT),
        Relation("R4", "x", "c1", "c2", Level.CONCEPT),
    )
    kept = TagSet(("Drug",)).restrict(Document("d", "abc", entities, relations))
    assert [entity.id for entity in kept.entities] == ["T1", "T3"]
    assert [relation.id for relation in kept.relations] == ["R2", "R3"]


def test_several_types_may_be_renamed_to_one() -> None:
    renamed = TagSet.rename(NOTE, {"Drug": "Dose", "Dose": "Drug", "ADE": "Drug"})
    assert [entity.type for entity in renamed.entities] == ["Dose", "Drug", "Drug"]


def test_renaming_leaves_other_types_and_relations_alone() -> None:
    renamed = TagSet.rename(NOTE, {"Drug": "Medication"})
    assert [entity.type for entity in renamed.entities] == ["Medication", "ADE", "Dose"]
    assert renamed.relations == NOTE.relations


DRUG, ADE, BOTH = TagSet(("Drug",)), TagSet(("ADE",)), TagSet(("Drug", "ADE"))


def span(start: int, end: int, kind: str) -> WordSpan:
    return WordSpan(start, end, kind)


def test_found_mentions_of_other_types_follow_the_local_ones() -> None:
    # Figure 2: "Clozapine induced akathisia in children with schizophrenia" at a site that annotates drugs.
    local = [span(0, 1, "Drug")]
    found = [span(0, 1, "Drug"), span(2, 3, "ADE"), span(6, 7, "Disease")]
    assert complete_annotation(local, found, DRUG) == [span(0, 1, "Drug"), span(2, 3, "ADE"), span(6, 7, "Disease")]


def test_found_mentions_of_annotated_types_are_dropped() -> None:
    # The annotators looked for drugs and found only the first one.
    assert complete_annotation([span(0, 1, "Drug")], [span(2, 3, "Drug"), span(4, 5, "Drug")], DRUG) == [
        span(0, 1, "Drug")
    ]
    assert complete_annotation([], [span(2, 3, "Drug"), span(3, 4, "ADE")], BOTH) == []
    assert complete_annotation([], [span(2, 3, "Drug"), span(3, 4, "ADE")], TagSet(())) == [
        span(2, 3, "Drug"),
        span(3, 4, "ADE"),
    ]


@pytest.mark.parametrize(
    "words",
    [(2, 5), (1, 3), (4, 6), (3, 4), (1, 6), (2, 3)],
    ids=["same", "into it", "out of it", "within", "around", "its first"],
)
def test_local_mention_keeps_all_its_words(words: tuple[int, int]) -> None:
    local = [span(2, 5, "Drug")]
    assert complete_annotation(local, [span(*words, "ADE")], DRUG) == local


@pytest.mark.parametrize("words", [(0, 2), (5, 6)], ids=["before", "behind"])
def test_adjacent_mentions_do_not_overlap(words: tuple[int, int]) -> None:
    local = [span(2, 5, "Drug")]
    assert complete_annotation(local, [span(*words, "ADE")], DRUG) == [*local, span(*words, "ADE")]


def test_first_of_two_found_mentions_on_one_word_wins() -> None:
    found = [span(0, 2, "ADE"), span(1, 3, "Disease"), span(2, 4, "Finding")]
    assert complete_annotation([], found, DRUG) == [span(0, 2, "ADE"), span(2, 4, "Finding")]
    assert complete_annotation([], found[1:], DRUG) == [span(1, 3, "Disease")]


def test_dropped_mentions_take_no_words() -> None:
    # The first overlaps the local drug, the second has an annotated type: both leave word 2 free.
    found = [span(0, 3, "ADE"), span(2, 4, "Drug"), span(2, 3, "Disease")]
    assert complete_annotation([span(0, 1, "Drug")], found, DRUG) == [span(0, 1, "Drug"), span(2, 3, "Disease")]


def test_local_mentions_of_any_type_are_kept() -> None:
    local = [span(0, 1, "Disease"), span(1, 2, "Drug")]  # one of them has a type outside the tag set
    assert complete_annotation(local, [span(0, 1, "ADE"), span(0, 1, "Disease")], DRUG) == local


@pytest.mark.parametrize("scheme", [BIO, BIOES, IOB1], ids=lambda scheme: scheme.name)
def test_completion_encodes_legally_and_keeps_the_local_tags(scheme: TagScheme) -> None:
    tags = scheme.tags(("Drug", "ADE"))
    legal = [path for path in product(tags, repeat=3) if scheme.is_legal(path)]
    for annotated in (path for path in legal if not any("ADE" in tag for tag in path)):
        for decoded in legal:
            spans = complete_annotation(scheme.spans(annotated), scheme.spans(decoded), DRUG)
            whole = scheme.encode(spans, 3)
            assert scheme.is_legal(whole)
            assert all(own in ("O", tag) for own, tag in zip(annotated, whole, strict=True))
            assert all(tag in ("O", own) for own, tag in zip(annotated, whole, strict=True) if "Drug" in tag)
