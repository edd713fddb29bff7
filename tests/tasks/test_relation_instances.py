from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora.strategies import BRIEF, documents

from wardround.corpora.ade import Ade
from wardround.corpora.pair_tsv import PairTsv
from wardround.corpora.pubtator import Pubtator
from wardround.errors import TextError, TrainingError
from wardround.models.relation_classifier import CONTEXT, FIRST, SECOND
from wardround.tasks.relation_instances import (
    PairRules,
    RelationCounts,
    RelationInstance,
    candidate_pairs,
    draw_negatives,
    instances_of,
    labelled_instances,
)
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.segmentation import sentences_of

TEXT = "Aspirin 5 mg gave rash. No fever on aspirin. Slept well. Pain again."
ENTITIES = (
    Entity("T1", "Drug", (Range(0, 7),)),
    Entity("T2", "Dose", (Range(8, 12),)),
    Entity("T3", "ADE", (Range(18, 22),)),
    Entity("T4", "ADE", (Range(27, 32),)),
    Entity("T5", "Drug", (Range(36, 43),)),
    Entity("T6", "ADE", (Range(57, 61),)),
)
CAUSES = RelationType("causes", (("Drug", "ADE"),))
DOSE = RelationType("dose-of", (("Dose", "Drug"),))
RULES = PairRules(RelationSet((CAUSES, DOSE)))


def note(*relations: tuple[str, str, str], entities: tuple[Entity, ...] = ENTITIES, text: str = TEXT) -> Document:
    return Document("n", text, entities, tuple(Relation(f"R{i}", *r) for i, r in enumerate(relations, start=1)))


def pairs(document: Document, rules: PairRules) -> list[tuple[str, str]]:
    return [(instance.head, instance.tail) for instance in instances_of(document, rules)]


def shown(instance: RelationInstance) -> str:
    names = {CONTEXT: "{}", FIRST: "<{}>", SECOND: "[{}]"}
    return "".join(names[part.owner].format(part.words) for part in instance.text.parts)


# Candidates.


def test_pairs_within_a_sentence_that_the_types_allow() -> None:
    assert pairs(note(), RULES) == [("T2", "T1"), ("T1", "T3"), ("T5", "T4")]


def test_pairs_within_a_window_of_sentences() -> None:
    two = [("T2", "T1"), ("T1", "T3"), ("T1", "T4"), ("T2", "T5"), ("T5", "T3"), ("T5", "T4")]
    assert sorted(pairs(note(), replace(RULES, window=2))) == sorted(two)
    three = [*two, ("T5", "T6")]  # "Slept well." lies between
    assert sorted(pairs(note(), replace(RULES, window=3))) == sorted(three)
    assert sorted(pairs(note(), replace(RULES, window=4))) == sorted([*three, ("T1", "T6")])


def test_without_types_of_ends_every_pair_goes_both_ways() -> None:
    found = pairs(note(), PairRules(RelationSet((RelationType("near"),))))
    assert len(found) == 2 * (3 + 1)
    assert found[:2] == [("T1", "T2"), ("T2", "T1")]


def test_an_undirected_pair_comes_once_in_the_order_of_the_text() -> None:
    rules = PairRules(RelationSet((CAUSES, DOSE), directed=False))
    assert pairs(note(), rules) == [("T1", "T2"), ("T1", "T3"), ("T4", "T5")]


def test_mentions_are_blinded_and_their_sentence_is_the_context() -> None:
    first, second, third = instances_of(note(), RULES)
    assert shown(first) == "[@DRUG$] <@DOSE$> gave rash."
    assert shown(second) == "<@DRUG$> 5 mg gave [@ADE$]."
    assert shown(third) == "No [@ADE$] on <@DRUG$>."
    assert shown(instances_of(note(), replace(RULES, blinding=False))[2]) == "No [fever] on <aspirin>."


def test_the_context_of_a_pair_in_two_sentences_is_both() -> None:
    found = {(i.head, i.tail): i for i in instances_of(note(), replace(RULES, window=3, blinding=False))}
    assert shown(found["T1", "T4"]) == "<Aspirin> 5 mg gave rash. No [fever] on aspirin."
    assert shown(found["T5", "T6"]) == "No fever on <aspirin>. Slept well. [Pain] again."


def test_a_discontinuous_mention_is_marked_range_by_range() -> None:
    text = "Aspirin: joint and muscle pain."
    entities = (
        Entity("T1", "Drug", (Range(0, 7),)),
        Entity("T2", "ADE", (Range(9, 14), Range(26, 30))),
        Entity("T3", "ADE", (Range(19, 30),)),
    )
    both = PairRules(RelationSet((RelationType("near"),), directed=False))
    found = instances_of(note(entities=entities, text=text), both)
    # "joint … pain" and "muscle pain" share a word and are no pair.
    assert [shown(i) for i in found] == [
        "<@DRUG$>: [@ADE$] and muscle [@ADE$].",
        "<@DRUG$>: joint and [@ADE$].",
    ]


def test_a_mention_over_the_end_of_a_sentence_needs_a_wider_window() -> None:
    document = note(entities=(Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "ADE", (Range(18, 32),))))
    assert pairs(document, RULES) == []
    (instance,) = instances_of(document, replace(RULES, window=2, blinding=False))
    assert shown(instance) == "<Aspirin> 5 mg gave [rash. No fever] on aspirin."


def test_a_mention_outside_any_sentence_of_the_corpus() -> None:
    document = replace(note(entities=ENTITIES[:5]), sentences=(Range(8, 23), Range(24, 35)))
    found = [shown(i) for i in instances_of(document, replace(RULES, blinding=False))]
    assert found == ["[Aspirin] <5 mg> gave rash.", "<Aspirin> 5 mg gave [rash].", "No [fever] on <aspirin>"]


def test_documents_without_pairs() -> None:
    assert instances_of(Document("n", ""), RULES) == ()
    assert instances_of(note(entities=ENTITIES[:1]), RULES) == ()
    blank = Document("n", "  ", (Entity("T1", "Drug", (Range(0, 1),)), Entity("T2", "ADE", (Range(1, 2),))))
    assert len(instances_of(blank, RULES)) == 1


def test_a_window_below_one_is_refused() -> None:
    with pytest.raises(TextError, match="a window of 0 sentences contains no pair"):
        PairRules(RULES.relations, window=0)


def test_repr_contains_no_text() -> None:
    found = labelled_instances([note(("causes", "T1", "T3"))], replace(RULES, blinding=False))
    assert "rash" not in repr(found)
    assert "gave" not in repr(found)


# Labels.


def test_labels_and_negatives() -> None:
    found = labelled_instances([note(("causes", "T1", "T3"))], RULES)
    assert [(e.label, e.relation) for e in found.instances] == [("none", ""), ("causes", "R1"), ("none", "")]
    assert found.counts == RelationCounts(kept=1, negatives=2)


def test_every_reason_to_lose_a_relation() -> None:
    nested = (*ENTITIES, Entity("T7", "ADE", (Range(0, 12),)))
    document = note(
        ("causes", "T1", "T3"),
        ("causes", "T1", "T3"),  # doubled
        ("dose-of", "T1", "T3"),  # against the types
        ("causes", "T3", "T1"),  # against the types: the wrong way round
        ("causes", "T1", "T4"),  # out of the window
        ("causes", "T1", "T7"),  # overlapping
        ("causes", "T1", "T1"),  # to itself
        ("treats", "T1", "T3"),  # unknown
        ("none", "T5", "T4"),  # says that there is none
        entities=nested,
    )
    counts = labelled_instances([document], RULES).counts
    expected = RelationCounts(
        kept=1, doubled=1, against_types=2, out_of_window=1, overlapping=1, to_itself=1, unknown_type=1, negatives=2
    )
    assert counts == expected
    assert (counts.lost, counts.relations) == (6, 8)


def test_a_pair_with_a_forbidden_relation_is_not_a_negative() -> None:
    found = labelled_instances([note(("dose-of", "T1", "T3"))], RULES)
    assert [(e.instance.head, e.instance.tail) for e in found.instances] == [("T2", "T1"), ("T5", "T4")]
    assert found.counts == RelationCounts(against_types=1, negatives=2)


def test_every_pair_ignores_the_annotation() -> None:
    found = labelled_instances([note(("dose-of", "T1", "T3"))], RULES, every_pair=True)
    assert [(e.instance.head, e.instance.tail) for e in found.instances] == pairs(note(), RULES)
    assert {e.label for e in found.instances} == {"none"}
    assert found.counts == RelationCounts(against_types=1, negatives=3)


@pytest.mark.parametrize("directed", [True, False])
def test_candidate_pairs_are_those_of_instances(directed: bool) -> None:
    rules = PairRules(RelationSet((CAUSES, DOSE), directed=directed), window=2)
    found = [(head.id, tail.id) for head, tail in candidate_pairs(note(), rules)]
    assert found == pairs(note(), rules)
    assert len(found) > 3


def test_an_undirected_relation_may_be_annotated_either_way() -> None:
    rules = PairRules(RelationSet((CAUSES,), directed=False))
    for ends in (("T1", "T3"), ("T3", "T1")):
        found = labelled_instances([note(("causes", *ends))], rules)
        assert [(e.instance.head, e.instance.tail) for e in found.instances if e.relation] == [("T1", "T3")]


def test_relations_between_concepts_label_every_close_pair_of_their_mentions() -> None:
    concepts = {"T1": ("A",), "T3": ("R",), "T4": ("F", "R"), "T5": ("A",), "T6": ("P",)}
    entities = tuple(replace(entity, concepts=concepts.get(entity.id, ())) for entity in ENTITIES)
    relations = (
        Relation("R1", "causes", "R", "A", Level.CONCEPT),
        Relation("R2", "causes", "A", "F", Level.CONCEPT),
        Relation("R3", "causes", "A", "P", Level.CONCEPT),
        Relation("R4", "causes", "F", "R", Level.CONCEPT),
    )
    rules = PairRules(RelationSet((CAUSES,), directed=False, level=Level.CONCEPT))
    found = labelled_instances([Document("n", TEXT, entities, relations)], rules)
    # T4–T5 is about R and A as well as F and A; R1 comes first, so that nothing is left to carry R2.
    carried = [(e.instance.head, e.instance.tail, e.relation) for e in found.instances]
    assert carried == [("T1", "T3", "R1"), ("T4", "T5", "R1")]
    # R4 is between two concepts of mention T4 (or T3 and T4, which lie in two sentences).
    assert found.counts == RelationCounts(kept=1, doubled=1, out_of_window=2)


def test_two_mentions_of_one_concept_are_no_pair() -> None:
    rules = PairRules(RelationSet((RelationType("near"),), directed=False, level=Level.CONCEPT))
    first, second = (replace(entity, concepts=("A",)) for entity in ENTITIES[:2])
    assert instances_of(note(entities=(first, second)), rules) == ()
    (instance,) = instances_of(note(entities=(first, replace(second, concepts=("A", "B")))), rules)
    assert instance.ends == (("A", "B"),)
    assert instances_of(note(entities=(first, replace(second, concepts=()))), rules) == ()


def test_relations_of_another_level_are_refused() -> None:
    rules = PairRules(RelationSet((CAUSES,), level=Level.CONCEPT))
    with pytest.raises(TextError, match="relation 'R1' is between mentions, those of the relation set are between con"):
        labelled_instances([note(("causes", "T1", "T3"))], rules)


def test_a_relation_to_an_entity_that_does_not_exist() -> None:
    with pytest.raises(TextError, match="relation 'R1' names 'T9', which is not a mention of the document"):
        note(("causes", "T1", "T9"))


# Masked pairs.


def masked(text: str, label: str, *, turned: bool = False) -> Document:
    places = {name: Range(at := text.index(name), at + len(name)) for name in ("@GENE$", "@DISEASE$")}
    gene, disease = (Entity(f"T{i}", n[1:-1].capitalize(), (r,)) for i, (n, r) in enumerate(places.items(), start=1))
    ends = (disease.id, gene.id) if turned else (gene.id, disease.id)
    relations = (Relation("R1", "association", *ends),) if label == "1" else ()
    return Document("g", text, (gene, disease), relations, attributes=(("label", label),))


LINKED = masked("In @DISEASE$ vs. Controls. The @GENE$ variant.", "1")
UNLINKED = masked("No link of @GENE$ to @DISEASE$.", "0")


@pytest.mark.parametrize("directed", [True, False])
def test_a_masked_pair_is_one_instance_despite_several_sentences(directed: bool) -> None:
    rules = PairRules(RelationSet.of([LINKED], directed=directed))
    found = labelled_instances([LINKED, UNLINKED], rules)
    assert [example.label for example in found.instances] == ["association", "none"]
    expected = "In [@DISEASE$] vs. Controls. The <@GENE$> variant."
    assert shown(found.instances[0].instance) == (
        expected if directed else expected.translate(str.maketrans("[]<>", "<>[]"))
    )
    assert shown(found.instances[1].instance) == "No link of <@GENE$> to [@DISEASE$]."
    assert found.counts == RelationCounts(kept=1, negatives=1)


def test_a_masked_pair_without_types_of_ends() -> None:
    rules = PairRules(RelationSet((RelationType("association"),)))
    assert len(instances_of(UNLINKED, rules)) == 1
    with pytest.raises(TextError, match="'g': its relation runs from its second mention to its first; give the rel"):
        instances_of(LINKED, rules)


def test_a_masked_pair_of_types_that_the_set_does_not_know() -> None:
    rules = PairRules(RelationSet((replace(CAUSES, name="association"),)))
    assert len(instances_of(UNLINKED, rules)) == 1
    assert labelled_instances([masked("@GENE$. At @DISEASE$", "1")], rules).counts == RelationCounts(against_types=1)


# Negatives.


def test_negatives_are_drawn_by_the_seed() -> None:
    found = labelled_instances([note(("causes", "T1", "T3"))] * 10, RULES)
    drawn = draw_negatives(found, per_positive=1.5, seed=3)
    assert drawn.counts == RelationCounts(kept=10, negatives=15, negatives_not_drawn=5)
    assert len(drawn.instances) == 25
    assert drawn == draw_negatives(found, per_positive=1.5, seed=3)
    assert drawn != draw_negatives(found, per_positive=1.5, seed=4)


def test_the_ratio_of_negatives() -> None:
    found = labelled_instances([note(("causes", "T1", "T3"))], RULES)
    assert draw_negatives(found, per_positive=float("inf"), seed=0) == found
    assert draw_negatives(found, per_positive=0, seed=0).counts == RelationCounts(kept=1, negatives_not_drawn=2)
    nothing = draw_negatives(labelled_instances([note()], RULES), per_positive=2, seed=0)
    assert nothing.counts == RelationCounts(negatives=1, negatives_not_drawn=2)
    for ratio in (-1, float("nan")):
        with pytest.raises(TrainingError, match="negatives per positive"):
            draw_negatives(found, per_positive=ratio, seed=0)


# Properties.

DOCUMENTS = documents(relations=True, overlapping=True, discontinuous=True)
RULE_SETS = st.builds(
    lambda window, directed, ends: PairRules(
        RelationSet((RelationType("Causes", ends), RelationType("Dose-Of")), directed=directed), window
    ),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([(), (("Drug", "ADE"),), (("ADE", "ADE"), ("Drug", "Drug"))]),
)


@BRIEF
@given(DOCUMENTS, RULE_SETS)
def test_every_relation_is_an_instance_or_a_counted_drop(document: Document, rules: PairRules) -> None:
    found = labelled_instances([document], rules)
    carried = {example.relation for example in found.instances if example.relation}
    assert found.counts.kept == len(carried)
    assert found.counts.relations == len(document.relations)
    by_id = {relation.id: relation for relation in document.relations}
    for example in found.instances:
        if example.relation:
            relation = by_id[example.relation]
            ends = (relation.head, relation.tail)
            pair = (example.instance.head, example.instance.tail)
            assert ends == pair or (not rules.relations.directed and ends == pair[::-1])
            assert example.label == relation.type


@st.composite
def conceptual(draw: st.DrawFn) -> Document:
    """A document whose mentions have up to two of three concepts, and relations between those."""
    bare = draw(documents(overlapping=True, discontinuous=True))
    concepts = st.lists(st.sampled_from("ABC"), max_size=2, unique=True).map(tuple)
    entities = tuple(replace(entity, concepts=draw(concepts)) for entity in bare.entities)
    known = sorted({concept for entity in entities for concept in entity.concepts})
    ends = st.sampled_from(known) if known else st.nothing()
    drawn = draw(st.lists(st.tuples(st.sampled_from(["Causes", "Dose-Of"]), ends, ends), max_size=4 if known else 0))
    relations = [Relation(f"R{number}", *triple, Level.CONCEPT) for number, triple in enumerate(drawn, start=1)]
    return replace(bare, entities=entities, relations=tuple(relations))


@BRIEF
@given(conceptual(), RULE_SETS)
def test_every_relation_between_concepts_is_an_instance_or_a_counted_drop(document: Document, rules: PairRules) -> None:
    rules = replace(rules, relations=replace(rules.relations, level=Level.CONCEPT))
    found = labelled_instances([document], rules)
    assert found.counts.kept == len({example.relation for example in found.instances if example.relation})
    assert found.counts.relations == len(document.relations)
    by_id = {relation.id: relation for relation in document.relations}
    concepts = {entity.id: entity.concepts for entity in document.entities}
    for example in found.instances:
        if example.relation:
            relation, pair = by_id[example.relation], (example.instance.head, example.instance.tail)
            orders = [pair] if rules.relations.directed else [pair, pair[::-1]]
            assert any(relation.head in concepts[h] and relation.tail in concepts[t] for h, t in orders)


@BRIEF
@given(DOCUMENTS, RULE_SETS)
def test_instances_are_unique(document: Document, rules: PairRules) -> None:
    found = pairs(document, rules)
    assert len(set(found)) == len(found)
    if not rules.relations.directed:
        assert len({frozenset(pair) for pair in found}) == len(found)


@BRIEF
@given(DOCUMENTS, RULE_SETS)
def test_blinding_never_leaves_the_text_of_a_mention(document: Document, rules: PairRules) -> None:
    document = replace(document, sentences=sentences_of(document) or None)
    by_id = {entity.id: entity for entity in document.entities}
    for number, instance in enumerate(instances_of(document, rules)):
        text = list(document.text)
        for entity in (by_id[instance.head], by_id[instance.tail]):
            for start, end in entity.ranges:
                text[start:end] = "\ue000" * (end - start)
        secret = replace(document, text="".join(text))
        blinded = instances_of(secret, rules)[number]
        assert (blinded.head, blinded.tail) == (instance.head, instance.tail)
        assert not any("\ue000" in part.words for part in blinded.text.parts)
        open_ = instances_of(secret, replace(rules, blinding=False))[number]
        assert any("\ue000" in part.words for part in open_.text.parts)
        assert all("\ue000" not in part.words for part in open_.text.parts if part.owner == CONTEXT)


# Real corpora.


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "positive", "negative"), [("GAD", 2_801, 2_529), ("euadr", 262, 93)])
def test_every_sentence_of_gad_and_eu_adr_is_one_instance(
    shared_data: Path, name: str, positive: int, negative: int
) -> None:
    found = list(PairTsv().read(shared_data / "biobert_re" / name / "1"))
    rules = PairRules(RelationSet.of(found))
    assert rules.relations.types == (RelationType("association", (("Gene", "Disease"),)),)
    labelled = labelled_instances(found, rules)
    assert labelled.counts == RelationCounts(kept=positive, negatives=negative)
    assert [e.instance.document for e in labelled.instances] == [document.id for document in found]


@pytest.mark.corpus
def test_the_relations_of_ade(shared_data: Path) -> None:
    found = list(Ade().read(shared_data / "ade_corpus_v2" / "DRUG-AE.rel", problems=lambda _: None))
    # 120 of the 6,821 relations are between mentions within one another, such as "lithium" in "lithium intoxication".
    counts = labelled_instances(found, PairRules(RelationSet.of(found))).counts
    assert counts == RelationCounts(kept=6_701, overlapping=120, negatives=181)


@pytest.mark.corpus
def test_the_relations_of_biored(shared_data: Path) -> None:
    found = list(Pubtator().read(shared_data / "biored" / "Dev.PubTator", problems=lambda _: None))
    relations = RelationSet.of(found, directed=False)
    assert (relations.level, len(relations.types)) == (Level.CONCEPT, 6)  # two of the eight are in the other files
    kept = []
    for window in (1, 3, 100):
        counts = labelled_instances(found, PairRules(relations, window)).counts
        assert counts.relations == 1_162
        kept.append(counts.kept)
    assert kept == sorted(kept)
    assert counts.out_of_window == 0
