from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import count, islice

import pytest
import torch
from tests.models.tiny import TYPES, notes, word_tagger
from torch import nn

from wardround.errors import TrainingError
from wardround.evaluation.counts import SpanCounts
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.tasks.mentions import predict_mentions
from wardround.tasks.ner import NerTask, TaggedSentence, batch_loss, encode, score
from wardround.tasks.task import head_scores
from wardround.text.alignment import AlignmentCounts
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_schemes import BIO, BIOES
from wardround.text.tag_sets import TagSet

#       0         1         2         3
#       0123456789012345678901234567890123456789
TEXT = "Took 10mg aspirin. Joint pain since."
NOTE = Document(
    "n1",
    TEXT,
    (
        Entity("T1", "Drug", (Range(10, 17),)),
        Entity("T2", "ADE", (Range(19, 29),)),
        Entity("T3", "Dose", (Range(5, 9),)),
        Entity("T4", "ADE", (Range(19, 24),)),
    ),
)
EMPTY = Document("empty", "")


class Lexicon(TaggingModel):
    """Knows the tag of a few words, and keeps the batches it was asked for."""

    def __init__(self, **tags: str) -> None:
        super().__init__(TYPES, "BIO")
        self.known, self.batches = tags, list[list[list[str]]]()
        self.anchor = nn.Parameter(torch.zeros(1))

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        self.batches.append([list(sentence) for sentence in sentences])
        return Inputs(mask=torch.ones(len(sentences), 1, dtype=torch.bool))

    def decode(self, inputs: Inputs) -> list[list[str]]:
        return [[self.known.get(word, "O") for word in sentence] for sentence in self.batches[-1]]


def found(document: Document) -> list[tuple[str, str, str]]:
    return [(entity.id, entity.type, entity.text_in(document.text)) for entity in document.entities]


def test_documents_become_tagged_sentences() -> None:
    examples = encode([NOTE], TYPES, BIO)
    assert examples.sentences == (
        TaggedSentence(("Took", "10", "mg", "aspirin", "."), ("O", "O", "O", "B-Drug", "O")),
        TaggedSentence(("Joint", "pain", "since", "."), ("B-ADE", "I-ADE", "O", "O")),
    )
    # Dose is none of the types and is not counted; the inner ADE is lost to the outer.
    assert examples.counts == AlignmentCounts(exact=2, overlapped=1)


def test_another_scheme_and_another_tag_set() -> None:
    examples = encode([NOTE, EMPTY, NOTE], TagSet(("Dose",)), BIOES)
    assert [sentence.tags for sentence in examples.sentences[:2]] == [("O", "B-Dose", "E-Dose", "O", "O"), ("O",) * 4]
    assert examples.counts == AlignmentCounts(exact=2)


def test_documents_without_examples_are_refused() -> None:
    for documents in ([], [EMPTY]):
        with pytest.raises(TrainingError, match="the documents contain no sentence to train on"):
            encode(documents, TYPES, BIO)


def test_repr_contains_no_text() -> None:
    assert "aspirin" not in repr(encode([NOTE], TYPES, BIO))


def test_the_loss_of_a_batch_is_the_mean_of_its_sentences() -> None:
    model = word_tagger().eval()
    sentences = encode([NOTE], TYPES, BIO).sentences
    alone = [batch_loss(model, [sentence]) for sentence in sentences]
    torch.testing.assert_close(batch_loss(model, sentences), torch.stack(alone).mean())


def test_predictions_replace_the_annotation() -> None:
    model = Lexicon(aspirin="B-Drug", Joint="B-ADE", pain="I-ADE", since="B-Drug")
    (predicted,) = predict_mentions(model, [NOTE])
    assert found(predicted) == [("T1", "Drug", "aspirin"), ("T2", "ADE", "Joint pain"), ("T3", "Drug", "since")]
    assert (predicted.id, predicted.text) == ("n1", TEXT)


def test_an_ill_formed_prediction_is_repaired() -> None:
    (predicted,) = predict_mentions(Lexicon(pain="I-ADE"), [NOTE])
    assert found(predicted) == [("T1", "ADE", "pain")]


def test_documents_keep_their_order_and_empty_ones_are_kept() -> None:
    documents = [EMPTY, NOTE, Document("blank", " \n "), NOTE, EMPTY]
    predicted = list(predict_mentions(Lexicon(aspirin="B-Drug"), documents, batch_size=1))
    assert [document.id for document in predicted] == ["empty", "n1", "blank", "n1", "empty"]
    assert [len(document.entities) for document in predicted] == [0, 1, 0, 1, 0]
    assert list(predict_mentions(Lexicon(), [])) == []
    assert list(predict_mentions(Lexicon(), [EMPTY])) == [EMPTY]


def test_short_sentences_are_batched_with_short_ones() -> None:
    model = Lexicon()
    list(predict_mentions(model, [Document("n", "One two three. Four. Five six seven. Eight.")], batch_size=2))
    assert [[len(sentence) for sentence in batch] for batch in model.batches] == [[2, 2], [4, 4]]


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
def test_the_batch_size_changes_nothing(batch_size: int) -> None:
    model = word_tagger(scheme="BIOES")
    documents = [*notes(12), EMPTY]
    expected = list(predict_mentions(model, documents))
    assert any(document.entities for document in expected)
    assert list(predict_mentions(model, documents, batch_size=batch_size)) == expected


@pytest.mark.parametrize("text", [TEXT, ""], ids=["notes", "empty"])
def test_an_endless_stream_is_read_lazily(text: str) -> None:
    read = []

    def stream() -> Iterator[Document]:
        for number in count():
            read.append(number)
            yield Document(f"n{number}", text)

    predicted = predict_mentions(Lexicon(), stream())
    assert read == []
    assert [document.id for document in islice(predicted, 3)] == ["n0", "n1", "n2"]
    assert len(read) <= 1024
    before = len(read)
    assert next(predicted).id == "n3"  # it was ready
    assert len(read) == before


def test_prediction_needs_no_dropout_and_no_gradient() -> None:
    model = word_tagger(input_dropout=0.9, dropout=0.9)
    model.train()
    first = list(predict_mentions(model, notes(3)))
    model.train()
    assert list(predict_mentions(model, notes(3))) == first
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_score_by_hand() -> None:
    other = Document("n2", "Aspirin gave pain.", (Entity("T1", "ADE", (Range(13, 17),)),))
    model = Lexicon(aspirin="B-Drug", Aspirin="B-Drug", pain="B-ADE")
    found = score(model, [NOTE, other, EMPTY])
    # n1: aspirin is right; "pain" alone is not "Joint pain" but overlaps it; the inner "Joint" is not found.
    # n2: pain is right, Aspirin was not annotated. Dose is none of the model's types.
    assert found.strict["Drug"] == SpanCounts(1, 1, 0)
    assert found.strict["ADE"] == SpanCounts(1, 1, 2)
    assert found.relaxed["ADE"] == SpanCounts(2, 0, 1)
    assert found.strict.micro.f1 == pytest.approx(2 * 2 / (4 + 4))
    assert "Dose" not in found.strict
    assert found.documents == 3


# The task: a model bound to what a site annotates.

DRUGS = TagSet(("Drug",))


def test_a_task_has_all_types_of_the_model_by_default() -> None:
    task = NerTask(Lexicon())
    assert task.types == task.model.tag_set == TYPES
    assert (task.matching_modes, task.entity_types, task.alignment_losses) == (
        ("strict", "relaxed"),
        ("ADE", "Drug"),
        {},
    )
    assert task.encode([NOTE]) == encode([NOTE], TYPES, BIO).sentences
    assert task.alignment_losses == asdict(AlignmentCounts(exact=2, overlapped=1))
    assert [task.length(sentence) for sentence in task.encode([NOTE])] == [5, 4]


def test_a_site_trains_and_is_scored_on_what_it_annotates() -> None:
    model = Lexicon(aspirin="B-Drug", Joint="B-ADE", pain="I-ADE", mg="B-Drug")
    task = NerTask(model, DRUGS)
    assert [sentence.tags for sentence in task.encode([NOTE])] == [("O", "O", "O", "B-Drug", "O"), ("O",) * 4]
    assert task.entity_types == ("ADE", "Drug")  # the model predicts the other sites' types too
    assert found(next(iter(task.predict([NOTE])))) == [
        ("T1", "Drug", "mg"),
        ("T2", "Drug", "aspirin"),
        ("T3", "ADE", "Joint pain"),
    ]
    score = task.score([NOTE, EMPTY])
    assert dict(score.counts["strict"]) == dict(score.counts["relaxed"]) == {"Drug": SpanCounts(1, 1, 0)}


def test_test_notes_may_be_annotated_with_more_than_a_site_trains_on() -> None:
    model = Lexicon(aspirin="B-Drug", Joint="B-ADE", pain="I-ADE", mg="B-Drug", Took="B-ADE")
    task = NerTask(model, DRUGS, TYPES)
    assert (task.types, task.scored) == (DRUGS, TYPES)
    assert {tag for sentence in task.encode([NOTE]) for tag in sentence.tags} == {"O", "B-Drug"}
    assert dict(task.score([NOTE]).main) == {"Drug": SpanCounts(1, 1, 0)}
    # "Joint pain" is right, "Took" is none, and the inner "Joint" is not found.
    assert dict(task.score_test([NOTE]).main) == {"Drug": SpanCounts(1, 1, 0), "ADE": SpanCounts(1, 1, 1)}


def test_test_notes_are_scored_on_the_training_types_by_default() -> None:
    task = NerTask(Lexicon(aspirin="B-Drug", Took="B-ADE"), DRUGS)
    assert task.scored == DRUGS
    assert task.score_test([NOTE]).counts == task.score([NOTE]).counts


def test_a_model_that_does_not_know_a_type_misses_it() -> None:
    task = NerTask(Lexicon(aspirin="B-Drug"), DRUGS, TagSet(("Drug", "Dose")))
    assert dict(task.score_test([NOTE]).main) == {"Drug": SpanCounts(1, 0, 0), "Dose": SpanCounts(0, 0, 1)}


def test_public_notes_are_encoded_with_all_types() -> None:
    task = NerTask(Lexicon(), DRUGS)
    assert [sentence.tags for sentence in task.public([NOTE])] == [
        ("O", "O", "O", "B-Drug", "O"),
        ("B-ADE", "I-ADE", "O", "O"),
    ]
    assert task.alignment_losses == asdict(AlignmentCounts(exact=2, overlapped=1))


def test_the_score_of_a_task_by_hand() -> None:
    other = Document("n2", "Aspirin gave pain.", (Entity("T1", "ADE", (Range(13, 17),)),))
    score = NerTask(Lexicon(aspirin="B-Drug", Aspirin="B-Drug", pain="B-ADE")).score([NOTE, other, EMPTY])
    # As above; "pain" alone is not "Joint pain" but overlaps it.
    assert dict(score.main) == {"Drug": SpanCounts(1, 1, 0), "ADE": SpanCounts(1, 1, 2)}
    assert score.counts["relaxed"]["ADE"] == SpanCounts(2, 0, 1)
    assert [counts.micro.tp for counts in score.by_document["strict"]] == [1, 1, 0]
    assert (score.documents, score.dropped) == (3, 0)
    assert score.entities is not None
    assert (score.entities.strict, score.entities.relaxed) == (score.main, score.counts["relaxed"])


def test_heads_have_one_row_per_word() -> None:
    task = NerTask(word_tagger().eval())
    sentences = task.encode([NOTE])
    (tags,) = task.labels(sentences).values()
    assert [task.model.tags[tag] for tag in tags.tolist()] == [
        *("O", "O", "O", "B-Drug", "O"),
        *("B-ADE", "I-ADE", "O", "O"),
    ]
    heads = task.heads(sentences)
    assert {head: scores.shape for head, scores in heads.items()} == {"tags": (9, 5)}
    assert task.classes() == {"tags": 5}
    # The padding of the shorter sentence is no row: each alone gives the same.
    alone = [task.heads([sentence])["tags"] for sentence in sentences]
    torch.testing.assert_close(heads["tags"], torch.cat(alone), atol=1e-5, rtol=1e-5)
    heads["tags"].sum().backward()  # type: ignore[no-untyped-call]
    assert any(parameter.grad is not None for parameter in task.model.parameters())


def test_head_rows_match_their_labels() -> None:
    task = NerTask(word_tagger(scheme="BIOES"))
    sentences = task.public(notes(7))
    found = head_scores(task, sentences, batch_size=4)["tags"]
    assert found.shape == (len(task.labels(sentences)["tags"]), 9)
    with torch.inference_mode():
        alone = torch.cat([task.heads([sentence])["tags"] for sentence in sentences])
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-5)


def test_the_loss_of_a_task_is_that_of_its_sentences() -> None:
    task = NerTask(word_tagger().eval())
    sentences = task.encode([NOTE])
    torch.testing.assert_close(task.batch_loss(sentences), batch_loss(task.model, sentences))


def test_a_task_without_a_sentence() -> None:
    task = NerTask(Lexicon())
    for make in (task.encode, task.public):
        with pytest.raises(TrainingError, match="the documents contain no sentence to train on"):
            make([EMPTY])
