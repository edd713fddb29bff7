from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny import TYPES, write_encoder
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.corpora.ade import Ade
from wardround.corpora.brat import Brat
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pubtator import Pubtator
from wardround.errors import TextError, TrainingError
from wardround.evaluation.counts import SpanCounts
from wardround.models.encoders import PieceBatch
from wardround.models.joint_extractor import JointExtractor, JointExtractorConfig, PairRows
from wardround.tasks.joint import JointTask, predict, score
from wardround.tasks.joint_examples import JointExample, LabelledPair
from wardround.tasks.passages import cut_passages
from wardround.tasks.task import head_scores
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.tag_sets import TagSet

CAUSES = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))
#       0         1         2         3         4         5
#       012345678901234567890123456789012345678901234567890123
TEXT = "Aspirin gave joint pain. Later penicillin gave rash ."
GAVE = Document(
    "n1",
    TEXT,
    (
        Entity("T1", "Drug", (Range(0, 7),)),
        Entity("T2", "ADE", (Range(13, 23),)),
        Entity("T3", "Drug", (Range(31, 41),)),
        Entity("T4", "ADE", (Range(47, 51),)),
    ),
    (Relation("R1", "causes", "T1", "T2"), Relation("R2", "causes", "T3", "T4")),
)
EMPTY = Document("empty", "")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


class Rule(JointExtractor):
    """Know the tags of a few words; each of `words` between two mentions increases the score of the class at its index.

    The state of a word is its number in the vocabulary.
    """

    known: dict[str, str]
    words: tuple[str, ...] = ("", "gave")

    def prepare(self, texts: Sequence[Sequence[str]]) -> PieceBatch:
        self.texts = texts
        return super().prepare(texts)

    def states(self, pieces: PieceBatch) -> Tensor:
        rows = [[NUMBERS.get(word, 0) for word in text] for text in self.texts]
        return pad_sequence([torch.tensor(row, dtype=torch.float) for row in rows], batch_first=True)[..., None]

    def emissions(self, states: Tensor) -> Tensor:
        tags = [[self.tag_rows[self.known.get(VOCABULARY[int(at)], "O")] for (at,) in row] for row in states.tolist()]
        return torch.nn.functional.one_hot(torch.tensor(tags), len(self.tags)).float()

    def relation_scores(self, states: Tensor, pairs: PairRows) -> Tensor:
        scores = torch.zeros(len(pairs.texts), len(self.class_rows))
        scores[:, 0] = 0.5
        for row, (text, words) in enumerate(zip(pairs.texts.tolist(), pairs.words.tolist(), strict=True)):
            between = [VOCABULARY[int(at)] for (at,) in states[text, slice(*words[2])].tolist()]
            for place, word in enumerate(self.words):
                scores[row, place] += between.count(word)
        return scores


VOCABULARY = ("-", "Aspirin", "gave", "joint", "pain", "Later", "penicillin", "rash", "cured")
NUMBERS = {word: number for number, word in enumerate(VOCABULARY)}
KNOWN = {"Aspirin": "B-Drug", "penicillin": "B-Drug", "joint": "B-ADE", "pain": "I-ADE", "rash": "B-ADE"}


def rule(encoder: Path, relations: RelationSet = CAUSES, **changes: Any) -> Rule:
    model = Rule(JointExtractorConfig(encoder=str(encoder), **changes), TYPES, relations)
    model.known = dict(KNOWN)
    return model


def learner(
    encoder: Path, relations: RelationSet = CAUSES, *, tag_set: TagSet = TYPES, **changes: Any
) -> JointExtractor:
    torch.manual_seed(0)
    return JointExtractor(JointExtractorConfig(encoder=str(encoder), **changes), tag_set, relations)


def found(document: Document) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str, str]]]:
    entities = [(entity.id, entity.type, entity.text_in(document.text)) for entity in document.entities]
    return entities, [(relation.id, relation.type, relation.head, relation.tail) for relation in document.relations]


# Loss and heads.


def test_the_loss_of_a_batch_is_the_mean_of_its_passages(encoder: Path) -> None:
    task = JointTask(learner(encoder, dropout=0.0))
    task.model.eval()
    examples = task.encode([GAVE])
    alone = [task.batch_loss([example]) for example in examples]
    torch.testing.assert_close(task.batch_loss(examples), torch.stack(alone).mean())
    assert alone[0] != alone[1]


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_the_loss_adds_the_weighted_relation_loss(encoder: Path, decoder: str) -> None:
    model = learner(encoder, decoder=decoder).eval()
    task = JointTask(model, relation_weight=2.5)
    (example, _) = task.encode([GAVE])
    states = model.states(model.prepare([example.words]))
    rows = torch.tensor([[model.tag_rows[tag] for tag in example.tags]])
    tags = -model.decoder.log_likelihood(model.emissions(states), torch.ones(1, 5, dtype=torch.bool), rows)[0]
    (pair,) = example.pairs
    scores = model.relation_scores(states, model.pair_rows([(0, pair.spans)], [5]))
    expected = tags - 2.5 * scores.log_softmax(-1)[0, 1]
    torch.testing.assert_close(task.batch_loss([example]), expected)
    torch.testing.assert_close(JointTask(model, relation_weight=0.0).batch_loss([example]), tags)


def test_words_that_a_passage_does_not_own_have_no_tag(encoder: Path) -> None:
    """The third sentence is context of the first passage: a row a word of the two that it owns, in the heads too."""
    task = JointTask(learner(encoder, window=2).eval())
    longer = replace(GAVE, text=TEXT + " Bye now.")
    examples = task.encode([longer])
    assert [(len(example.words), len(example.tags)) for example in examples] == [(13, 10), (3, 3)]
    heads, labels = task.heads(examples), task.labels(examples)
    assert {head: tuple(scores.shape) for head, scores in heads.items()} == {"tags": (13, 5), "relations": (4, 2)}
    assert {head: len(rows) for head, rows in labels.items()} == {"tags": 13, "relations": 4}
    assert labels["relations"].tolist() == [1, 0, 0, 1]  # by pairs: T1-T2, T1-T4, T3-T2, T3-T4
    assert task.batch_loss(examples).isfinite()


def test_head_scores_equal_the_heads_of_each_example(encoder: Path) -> None:
    task = JointTask(learner(encoder))
    plain = JointExample(("No", "fever"), ("O", "O"))  # without a pair
    examples = [*task.encode([GAVE]), plain, *task.encode([GAVE])[:1]]
    scores = head_scores(task, examples, batch_size=2)
    assert task.classes() == {"tags": 5, "relations": 2}
    assert {head: tuple(rows.shape) for head, rows in scores.items()} == {"tags": (17, 5), "relations": (3, 2)}
    task.model.eval()
    with torch.inference_mode():
        expected = [task.heads([example]) for example in examples]
    for head in task.classes():
        whole = torch.cat([rows[head] for rows in expected])
        torch.testing.assert_close(scores[head], whole, atol=1e-5, rtol=1e-5)
    with torch.inference_mode():
        assert task.heads([plain])["relations"].shape == (0, 2)
    assert task.labels([plain])["relations"].dtype == torch.long


def test_public_notes_give_every_pair_whatever_the_negative_sampling(encoder: Path) -> None:
    both = replace(GAVE, relations=GAVE.relations[:1])
    task = JointTask(learner(encoder, window=2), negatives=1.0)
    assert [len(example.pairs) for example in task.encode([both])] == [2]
    assert task.alignment_losses["relations_negatives_not_drawn"] == 2
    assert [len(example.pairs) for example in task.public([both])] == [4]
    assert task.alignment_losses["relations_negatives_not_drawn"] == 0


@pytest.mark.parametrize("level", list(Level))
def test_public_notes_give_every_pair_whatever_the_annotation(level: Level, encoder: Path) -> None:
    """Also one that is related against the types."""
    kinds = (RelationType("causes", (("Drug", "ADE"),)), RelationType("with", (("ADE", "ADE"),)))
    task = JointTask(learner(encoder, RelationSet(kinds, level=level), window=2))
    entities = tuple(replace(entity, concepts=(f"C{entity.id}",)) for entity in GAVE.entities)
    ends = ("T1", "T2") if level is Level.MENTION else ("CT1", "CT2")
    related = [(), (Relation("R1", "causes", *ends, level),), (Relation("R1", "with", *ends, level),)]
    notes = [replace(GAVE, entities=entities, relations=some) for some in related]
    pairs = [[pair.spans for example in task.public([note]) for pair in example.pairs] for note in notes]
    assert pairs[0] == pairs[1] == pairs[2]
    assert len(pairs[0]) == 6  # each drug with each effect, and the effects both ways round
    trained = task.encode(notes[2:])
    assert sum(len(example.pairs) for example in trained) == 5


def test_invalid_settings_are_refused(encoder: Path) -> None:
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(TrainingError, match="relation_weight is"):
            JointTask(learner(encoder), relation_weight=weight)


def test_an_unknown_label_is_refused(encoder: Path) -> None:
    task = JointTask(learner(encoder))
    (example, _) = task.encode([GAVE])
    wrong = replace(example, pairs=(LabelledPair(example.pairs[0].spans, "treats"),))
    with pytest.raises(TrainingError, match="no class of the model is called 'treats'; it has none, causes"):
        task.batch_loss([wrong])


# Predictions.


def test_entities_are_found_first_and_then_relations_among_them(encoder: Path) -> None:
    (predicted,) = predict(rule(encoder), [replace(GAVE, entities=(), relations=())])
    assert found(predicted) == (
        [
            ("T1", "Drug", "Aspirin"),
            ("T2", "ADE", "joint pain"),
            ("T3", "Drug", "penicillin"),
            ("T4", "ADE", "rash"),
        ],
        [("R1", "causes", "T1", "T2"), ("R2", "causes", "T3", "T4")],
    )
    assert (predicted.id, predicted.text) == ("n1", TEXT)
    assert predicted == GAVE


def test_prediction_ignores_the_annotation(encoder: Path) -> None:
    bare = replace(GAVE, entities=(), relations=())
    assert list(predict(rule(encoder), [GAVE])) == list(predict(rule(encoder), [bare]))


def test_a_wider_window_relates_across_sentences(encoder: Path) -> None:
    (predicted,) = predict(rule(encoder, window=2), [GAVE])
    # Between aspirin and the rash "gave" stands twice; between joint pain and penicillin it does not stand.
    assert [ends[2:] for ends in found(predicted)[1]] == [("T1", "T2"), ("T1", "T4"), ("T3", "T4")]


def test_a_pair_over_two_passages_is_found_once(encoder: Path) -> None:
    text = "She slept. Aspirin gave. So rash. She left. Aspirin gave. So rash."
    document = Document("n", text)
    assert [passage.owned for passage in cut_passages(document, 2).passages] == [6, 6, 6]
    (predicted,) = predict(rule(encoder, window=2), [document])
    # The second sentence is the last that the first passage owns; the third it only reads.
    assert [ends[2:] for ends in found(predicted)[1]] == [("T1", "T2"), ("T3", "T4")]


def test_documents_keep_their_order_and_empty_ones_are_kept(encoder: Path) -> None:
    documents = [EMPTY, GAVE, Document("blank", " \n "), Document("n2", "Nothing here."), GAVE, EMPTY]
    predicted = list(predict(rule(encoder), documents, batch_size=1))
    assert [document.id for document in predicted] == ["empty", "n1", "blank", "n2", "n1", "empty"]
    assert [len(document.relations) for document in predicted] == [0, 2, 0, 0, 2, 0]
    assert list(predict(rule(encoder), [])) == []
    assert list(predict(rule(encoder), [EMPTY])) == [EMPTY]


def test_types_that_the_set_does_not_allow_are_not_predicted(encoder: Path) -> None:
    kinds = (RelationType("heals", (("ADE", "Drug"),)), CAUSES.types[0])
    model = rule(encoder, RelationSet(kinds))
    model.words = ("", "gave", "cured")  # "gave" speaks for heals, "cured" for causes
    text = "Aspirin gave cured rash."
    (predicted,) = predict(model, [Document("n", text)])
    assert found(predicted)[1] == [("R1", "causes", "T1", "T2"), ("R2", "heals", "T2", "T1")]
    model.words = ("", "gave", "Later")
    (predicted,) = predict(model, [Document("n", text)])
    assert found(predicted)[1] == [("R1", "heals", "T2", "T1")]


def test_an_undirected_relation_is_in_text_order(encoder: Path) -> None:
    model = rule(encoder, replace(CAUSES, directed=False))
    document = Document(
        "n",
        "rash gave Aspirin .",
        (Entity("T1", "Drug", (Range(10, 17),)), Entity("T2", "ADE", (Range(0, 4),))),
        (Relation("R1", "causes", "T1", "T2"),),
    )
    (predicted,) = predict(model, [document])
    assert found(predicted)[1] == [("R1", "causes", "T1", "T2")]
    assert predicted.entities[0].type == "ADE"
    scored = score(model, [document]).counts
    assert [counts.micro for counts in scored.values()] == [SpanCounts(1), SpanCounts(1), SpanCounts(2)]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("window", [1, 2])
def test_the_batch_size_changes_nothing(encoder: Path, batch_size: int, window: int) -> None:
    model = learner(encoder, window=window)
    with torch.no_grad():
        model.network.classifier.weight.mul_(30)
        model.relation_head.classes.weight.mul_(30)
    documents = [GAVE, EMPTY, replace(GAVE, text="Rash " * 60 + TEXT[:10], entities=(), relations=())] * 2
    expected = list(predict(model, documents))
    assert any(document.relations for document in expected)
    assert list(predict(model, documents, batch_size=batch_size)) == expected


def test_a_model_that_tags_every_word_as_a_mention(encoder: Path) -> None:
    """More pairs than are scored at once."""
    model = rule(encoder)
    model.known |= {"gave": "B-ADE", "Later": "B-Drug"}
    (predicted,) = predict(model, [Document("n", "Later gave " * 80)])
    assert len(predicted.entities) == 160
    # Each drug with each effect, 80 · 80 = 6,400; only to its own next neighbour, or the last effect before, is no
    # "gave" between: 80 next ones and 79 before.
    assert len(predicted.relations) == 6400 - 80 - 79


def test_a_sentence_longer_than_the_encoder_reads(encoder: Path) -> None:
    text = "Aspirin gave " + "very " * 200 + "rash ."
    (predicted,) = predict(rule(encoder, overlap=8), [Document("n", text)])
    assert found(predicted) == ([("T1", "Drug", "Aspirin"), ("T2", "ADE", "rash")], [("R1", "causes", "T1", "T2")])


@pytest.mark.parametrize("document", [GAVE, EMPTY], ids=["notes", "empty"])
def test_an_endless_stream_is_read_lazily(encoder: Path, document: Document) -> None:
    read = []

    def stream() -> Iterator[Document]:
        for number in count():
            read.append(number)
            yield replace(document, id=f"n{number}")

    predicted = predict(rule(encoder), stream())
    assert read == []
    assert [one.id for one in islice(predicted, 3)] == ["n0", "n1", "n2"]
    assert len(read) <= 1024


def test_prediction_needs_no_dropout_and_no_gradient(encoder: Path) -> None:
    task = JointTask(learner(encoder, dropout=0.9))
    task.model.train()
    first = list(task.predict([GAVE] * 3))
    task.model.train()
    assert list(task.predict([GAVE] * 3)) == first
    assert all(parameter.grad is None for parameter in task.model.parameters())


@pytest.mark.parametrize("part", ["network.classifier.bias", "relation_head.classes.bias"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_refused(encoder: Path, part: str, value: float) -> None:
    model = learner(encoder)
    with torch.no_grad():
        model.get_parameter(part)[1] = value
    with pytest.raises(TrainingError, match="scores are not finite"):
        score(model, [GAVE])


def test_predictions_can_be_written(encoder: Path, tmp_path: Path) -> None:
    predicted = list(predict(rule(encoder), [GAVE, Document("n2", "No rash.")]))
    Brat().write(predicted, tmp_path / "brat")
    assert (tmp_path / "brat" / "n1.ann").read_text() == (
        "T1\tDrug 0 7\tAspirin\n"
        "T2\tADE 13 23\tjoint pain\n"
        "T3\tDrug 31 41\tpenicillin\n"
        "T4\tADE 47 51\trash\n"
        "R1\tcauses Arg1:T1 Arg2:T2\n"
        "R2\tcauses Arg1:T3 Arg2:T4\n"
    )
    Jsonl().write(predicted, tmp_path / "found.jsonl")
    assert list(Brat().read(tmp_path / "brat")) == predicted
    assert list(Jsonl().read(tmp_path / "found.jsonl")) == predicted


# Scores.


def test_three_matching_modes_by_hand(encoder: Path) -> None:
    model = rule(encoder)
    del model.known["pain"]
    model.known["Later"] = "B-Drug"
    scored = score(model, [GAVE, EMPTY])
    # "joint" alone is not "joint pain", and "Later" is no drug: of five entities found three are right, of four one is
    # missed. From text come Aspirin–joint (a wrong end), penicillin–rash (right) and Later–rash (wrong). Given the
    # entities, both relations are found and nothing else.
    counts = {reading: typed.micro for reading, typed in scored.counts.items()}
    assert counts == {
        "relations": SpanCounts(1, 2, 1),
        "given": SpanCounts(2, 0, 0),
        "entities": SpanCounts(3, 2, 1),
    }
    assert scored.main.micro.f1 == pytest.approx(2 / 5)
    assert (scored.documents, scored.dropped) == (2, 0)
    assert scored.entities is not None
    assert scored.entities.relaxed.micro == SpanCounts(4, 1, 0)
    assert JointTask.matching_modes == tuple(scored.by_document)


def test_types_outside_the_model_do_not_count(encoder: Path) -> None:
    other = replace(
        GAVE,
        entities=(*GAVE.entities, Entity("T5", "Dose", (Range(25, 30),))),
        relations=(*GAVE.relations, Relation("R3", "taken", "T5", "T1"), Relation("R4", "heals", "T1", "T2")),
    )
    counts = score(rule(encoder), [other]).counts
    assert {reading: typed.micro for reading, typed in counts.items()} == {
        "relations": SpanCounts(2, 0, 0),
        "given": SpanCounts(2, 0, 0),
        "entities": SpanCounts(4, 0, 0),
    }


def test_relations_that_cannot_be_found_count_as_not_found(encoder: Path) -> None:
    blank = Entity("T5", "ADE", (Range(12, 13),))
    parts = Entity("T6", "ADE", (Range(13, 18), Range(47, 51)))
    document = replace(
        GAVE,
        entities=(*GAVE.entities, blank, parts),
        relations=(
            Relation("R1", "causes", "T1", "T4"),  # in another sentence
            Relation("R2", "causes", "T1", "T1"),
            Relation("R3", "causes", "T1", "T5"),  # to a blank
            Relation("R4", "causes", "T1", "T6"),
        ),
    )
    scored = score(rule(encoder), [document])
    assert scored.counts["given"].micro == SpanCounts(0, 2, 4)
    assert scored.counts["relations"].micro == SpanCounts(0, 2, 4)
    assert scored.counts["entities"].micro == SpanCounts(4, 0, 2)
    assert scored.dropped == 1  # the blank; the mention in two parts lies over two sentences and is no candidate


def test_relations_between_concepts_are_scored_between_mentions(encoder: Path) -> None:
    concepts = {"T1": ("A",), "T2": ("J",), "T3": ("A",), "T4": ("R",)}
    document = replace(
        GAVE,
        entities=tuple(replace(entity, concepts=concepts[entity.id]) for entity in GAVE.entities),
        relations=(
            Relation("R1", "causes", "R", "A", Level.CONCEPT),
            Relation("R2", "causes", "J", "J", Level.CONCEPT),
        ),
    )
    model = rule(encoder, replace(CAUSES, directed=False, level=Level.CONCEPT))
    counts = score(model, [document]).counts
    # Penicillin (here of the same concept as aspirin) gave the rash; what aspirin gave is no relation of the concepts.
    assert counts["given"].micro == counts["relations"].micro == SpanCounts(1, 1, 0)
    (predicted,) = predict(model, [document])
    assert all(relation.level is Level.MENTION for relation in predicted.relations)
    with pytest.raises(TextError, match="relation 'R1' is between concepts"):
        score(rule(encoder), [document])


# Learning.


def toy(number: int) -> Document:
    """A drug that gave an effect, or did not, and an effect of something else."""
    drug, effect = ("aspirin", "penicillin", "alcohol")[number % 3], ("rash", "fever", "joint pain")[number // 3 % 3]
    verb = ("gave", "without")[number % 2]
    text = f"Day {number}: {drug} {verb} {effect}."
    places = [text.index(drug), text.index(effect)]
    entities = (
        Entity("T1", "Drug", (Range(places[0], places[0] + len(drug)),)),
        Entity("T2", "ADE", (Range(places[1], places[1] + len(effect)),)),
    )
    related = (Relation("R1", "causes", "T1", "T2"),) if verb == "gave" else ()
    return Document(f"n{number}", text, entities, related)


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_a_toy_corpus_is_memorised(encoder: Path, decoder: str) -> None:
    documents = [toy(number) for number in range(18)]
    task = JointTask(learner(encoder, dropout=0.0, decoder=decoder))
    examples = task.encode(documents)
    optimizer = torch.optim.Adam(task.model.parameters(), lr=0.01)
    task.model.train()
    for _ in range(60):
        optimizer.zero_grad()
        task.batch_loss(examples).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    counts = {reading: typed.micro for reading, typed in task.score(documents).counts.items()}
    assert counts == {"relations": SpanCounts(9), "given": SpanCounts(9), "entities": SpanCounts(36)}
    assert [found(document)[1] for document in task.predict(documents[:2])] == [[("R1", "causes", "T1", "T2")], []]


# Real corpora.


@pytest.mark.corpus
def test_ade_can_be_encoded_and_scored(encoder: Path, shared_data: Path) -> None:
    documents = list(islice(Ade().read(shared_data / "ade_corpus_v2" / "DRUG-AE.rel"), 60))
    model = learner(encoder, RelationSet.of(documents), tag_set=TagSet.of(documents))
    task = JointTask(model)
    examples = task.encode(documents)
    pairs = sum(pair.label != "none" for example in examples for pair in example.pairs)
    assert pairs == task.alignment_losses["relations_kept"]
    lost = task.alignment_losses["relations_overlapping"] + task.alignment_losses["relations_without_words"]
    assert pairs + lost == sum(len(document.relations) for document in documents)
    scored = task.score(documents)
    assert scored.counts["given"].micro.gold == pairs + lost
    assert scored.documents == 60


@pytest.mark.corpus
@pytest.mark.parametrize("window", [1, 3])
def test_biored_can_be_encoded_and_scored(encoder: Path, shared_data: Path, window: int) -> None:
    documents = list(islice(Pubtator().read(shared_data / "biored" / "Dev.PubTator"), 8))
    relations = RelationSet.of(documents, directed=False)
    assert relations.level is Level.CONCEPT
    task = JointTask(learner(encoder, relations, tag_set=TagSet.of(documents), window=window), negatives=2.0)
    examples = task.encode(documents)
    annotated = sum(len(document.relations) for document in documents)
    kept, lost = (
        task.alignment_losses["concepts_kept"],
        ("to_itself", "doubled", "overlapping", "against_types", "out_of_window"),
    )
    assert kept + sum(task.alignment_losses[f"concepts_{reason}"] for reason in lost) == annotated
    assert kept > annotated / 2
    assert (
        sum(pair.label != "none" for example in examples for pair in example.pairs)
        == task.alignment_losses["relations_kept"]
    )
    scored = task.score(documents)
    assert (
        scored.counts["relations"].micro.gold
        == scored.counts["given"].micro.gold
        >= task.alignment_losses["relations_kept"]
    )
    assert scored.counts["entities"].micro.gold > 0
