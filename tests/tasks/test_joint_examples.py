from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import TYPES, write_encoder

from wardround.errors import TextError, TrainingError
from wardround.models.joint_extractor import JointExtractor, JointExtractorConfig, SpanPair
from wardround.tasks.joint_examples import (
    JointCounts,
    JointExample,
    LabelledPair,
    encode,
    mention_rules,
    restrict_to_model,
)
from wardround.tasks.relation_instances import RelationCounts
from wardround.text.alignment import AlignmentCounts
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.tag_schemes import WordSpan

CAUSES = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))
#       0         1         2         3         4
#       0123456789012345678901234567890123456789012345678
TEXT = "Aspirin gave rash and nausea. No fever since."
GAVE = Document(
    "n1",
    TEXT,
    (
        Entity("T1", "Drug", (Range(0, 7),)),
        Entity("T2", "ADE", (Range(13, 17),)),
        Entity("T3", "ADE", (Range(22, 28),)),
        Entity("T4", "ADE", (Range(33, 38),)),
    ),
    (Relation("R1", "causes", "T1", "T2"),),
)
EMPTY = Document("empty", "")
DRUG, RASH, NAUSEA = WordSpan(0, 1, "Drug"), WordSpan(2, 3, "ADE"), WordSpan(4, 5, "ADE")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


def extractor(encoder: Path, relations: RelationSet = CAUSES, **changes: Any) -> JointExtractor:
    return JointExtractor(JointExtractorConfig(encoder=str(encoder), **changes), TYPES, relations)


def test_documents_become_passages_with_tags_and_pairs(encoder: Path) -> None:
    found = encode([GAVE, EMPTY], extractor(encoder))
    assert found.examples == (
        JointExample(
            ("Aspirin", "gave", "rash", "and", "nausea", "."),
            ("B-Drug", "O", "B-ADE", "O", "B-ADE", "O"),
            (LabelledPair(SpanPair(DRUG, RASH), "causes"), LabelledPair(SpanPair(DRUG, NAUSEA), "none")),
        ),
        JointExample(("No", "fever", "since", "."), ("O", "B-ADE", "O", "O")),
    )
    counts = JointCounts(AlignmentCounts(exact=4), RelationCounts(kept=1, negatives=1))
    assert found.counts == counts
    assert "Aspirin" not in repr(found)


def test_a_wider_window_owns_more_and_pairs_more(encoder: Path) -> None:
    (example,) = encode([GAVE], extractor(encoder, window=2)).examples
    assert len(example.words) == len(example.tags) == 10
    fever = WordSpan(7, 8, "ADE")
    assert [pair.spans.tail for pair in example.pairs] == [RASH, NAUSEA, fever]


def test_read_words_have_no_tag_but_their_pairs_are_kept(encoder: Path) -> None:
    three = replace(GAVE, text=TEXT + " Bye now.", relations=(Relation("R1", "causes", "T1", "T4"),))
    first, second = encode([three], extractor(encoder, window=2)).examples
    assert (len(first.words), len(first.tags)) == (13, 10)
    assert [pair.label for pair in first.pairs] == ["none", "none", "causes"]
    assert (second.words, second.tags, second.pairs) == (("Bye", "now", "."), ("O", "O", "O"), ())


def test_an_undirected_set_has_each_pair_once(encoder: Path) -> None:
    turned = replace(GAVE, relations=(Relation("R1", "causes", "T2", "T1"),))
    directed = encode([turned], extractor(encoder))
    assert [pair.label for pair in directed.examples[0].pairs] == ["none", "none"]
    assert directed.counts.relations == RelationCounts(against_types=1, negatives=2)
    undirected = encode([turned], extractor(encoder, replace(CAUSES, directed=False))).examples[0]
    assert undirected.pairs == (
        LabelledPair(SpanPair(DRUG, RASH), "causes"),
        LabelledPair(SpanPair(DRUG, NAUSEA), "none"),
    )


def test_annotations_that_cannot_be_expressed_are_counted(encoder: Path) -> None:
    #       0         1         2         3
    #       012345678901234567890123456789012345678
    text = "Aspirin gave joint and back pain daily ."
    document = Document(
        "n",
        text,
        (
            Entity("T1", "Drug", (Range(0, 7),)),
            Entity("T2", "ADE", (Range(13, 18), Range(28, 32))),  # in two parts
            Entity("T3", "ADE", (Range(23, 32),)),
            Entity("T4", "ADE", (Range(28, 32),)),  # within T3
            Entity("T5", "ADE", (Range(32, 33),)),  # a blank
            Entity("T6", "Dose", (Range(33, 38),)),
        ),
        (
            Relation("R1", "causes", "T1", "T2"),
            Relation("R2", "causes", "T1", "T4"),
            Relation("R3", "causes", "T1", "T5"),
            Relation("R4", "causes", "T1", "T1"),
            Relation("R5", "taken", "T1", "T6"),
            Relation("R6", "heals", "T1", "T3"),
        ),
    )
    found = encode([document], extractor(encoder))
    (example,) = found.examples
    assert example.tags == ("B-Drug", "O", "B-ADE", "O", "B-ADE", "I-ADE", "O", "O")
    joint, back, pain = WordSpan(2, 3, "ADE"), WordSpan(4, 6, "ADE"), WordSpan(5, 6, "ADE")
    # A pair needs no tag: the pain within the back pain is in one.
    assert [(pair.spans.tail, pair.label) for pair in example.pairs] == [
        (joint, "causes"),
        (back, "none"),
        (pain, "causes"),
    ]
    assert found.counts == JointCounts(
        AlignmentCounts(exact=2, longest_part=1, overlapped=1, without_words=1),
        RelationCounts(kept=2, unknown_type=2, to_itself=1, negatives=1),
        relations_without_words=1,
    )
    lost = found.counts.by_reason()
    assert (lost["entities_overlapped"], lost["relations_to_itself"], lost["relations_without_words"]) == (1, 1, 1)
    assert not any(reason.startswith("concepts") for reason in lost)


def test_relations_between_concepts_become_relations_between_mentions(encoder: Path) -> None:
    concepts = {"T1": ("A",), "T2": ("R",), "T3": ("R",), "T4": ("F",)}
    entities = tuple(replace(entity, concepts=concepts[entity.id]) for entity in GAVE.entities)
    relations = (
        Relation("R1", "causes", "A", "R", Level.CONCEPT),
        Relation("R2", "causes", "A", "F", Level.CONCEPT),
    )
    document = replace(GAVE, entities=entities, relations=relations)
    model = extractor(encoder, replace(CAUSES, level=Level.CONCEPT))
    found = encode([document], model)
    assert [pair.label for pair in found.examples[0].pairs] == ["causes", "causes"]
    # As relations between concepts one is kept and one out of the window; between mentions, two and one.
    assert found.counts.concepts == RelationCounts(kept=1, out_of_window=1)
    assert found.counts.relations == RelationCounts(kept=2, out_of_window=1)
    assert found.counts.by_reason()["concepts_out_of_window"] == 1
    wanted = restrict_to_model(document, model).document
    assert [(r.head, r.tail) for r in wanted.relations] == [("T1", "T2"), ("T1", "T3"), ("T1", "T4")]
    assert mention_rules(model).relations.level is Level.MENTION
    with pytest.raises(TextError, match="relation 'R1' is between concepts"):
        encode([document], extractor(encoder))


def test_negatives_are_drawn(encoder: Path) -> None:
    model = extractor(encoder)
    four = encode([GAVE] * 4, model, negatives=0.5, seed=1)
    assert sum(pair.label == "none" for example in four.examples for pair in example.pairs) == 2
    assert sum(pair.label == "causes" for example in four.examples for pair in example.pairs) == 4
    assert four.counts.relations == RelationCounts(kept=4, negatives=2, negatives_not_drawn=2)
    assert encode([GAVE] * 4, model, negatives=0.5, seed=1) == four
    assert encode([GAVE] * 4, model, negatives=9.0) == encode([GAVE] * 4, model)
    without = replace(GAVE, relations=())
    assert encode([without], model, negatives=3.0).counts.relations == RelationCounts(
        negatives=1, negatives_not_drawn=1
    )
    for wrong in (-1.0, float("nan")):
        with pytest.raises(TrainingError, match="negatives per positive is"):
            encode([GAVE], model, negatives=wrong)


def test_notes_without_entities_still_have_words(encoder: Path) -> None:
    found = encode([Document("n", "No fever.")], extractor(encoder))
    assert found.examples == (JointExample(("No", "fever", "."), ("O", "O", "O")),)
    assert encode([Document("n", "No fever.")], extractor(encoder), negatives=2.0) == found


def test_documents_without_examples_are_refused(encoder: Path) -> None:
    for documents in ([], [EMPTY], [Document("b", " \n")]):
        with pytest.raises(TrainingError, match="the documents contain no sentence to train on"):
            encode(documents, extractor(encoder))
