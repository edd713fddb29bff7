from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from tests.models.tiny import TYPES, notes, quick_tagger
from torch import Tensor

from wardround.models.crf import Posterior
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.tasks.completion import CompletedNer, TeacherLabels, UnknownLabelling
from wardround.tasks.ner import NerTask, TaggedSentence, batch_loss, encode
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_schemes import BIO
from wardround.text.tag_sets import TagSet

DRUG = TagSet(("Drug",))
WAYS: tuple[UnknownLabelling, ...] = ("pseudo", "posterior", "partial", "outside")
# Of four, one, two and three words; the site annotates drugs.
SENTENCES = (
    TaggedSentence(("Took", "aspirin", "against", "pain"), ("O", "B-Drug", "O", "O")),
    TaggedSentence(("Rash",), ("O",)),
    TaggedSentence(("Penicillin", "rash"), ("B-Drug", "O")),
    TaggedSentence(("No", "joint", "pain"), ("O", "O", "O")),
)
# What the model finds: an ADE where there is a drug, one that is right, nothing, one after a drug that nobody marked.
DECODED = {
    "Took": ["O", "B-ADE", "I-ADE", "B-ADE"],
    "Rash": ["B-ADE"],
    "Penicillin": ["O", "O"],
    "No": ["B-Drug", "B-ADE", "I-ADE"],
}
DECODERS = pytest.mark.parametrize("decoder", ["crf", "softmax"])


def made(
    unknown: UnknownLabelling, *, decoder: str = "crf", types: TagSet = DRUG, dropout: float = 0.0
) -> CompletedNer:
    model = quick_tagger(decoder=decoder, dropout=dropout, input_dropout=dropout)
    return CompletedNer(NerTask(model, types), SENTENCES, unknown)


def rows_of(*tags: str) -> list[int]:
    return [BIO.tags(TYPES.types).index(tag) for tag in tags]


def finding(model: TaggingModel, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The model decodes as above; whether it was in training each time."""
    asked: list[bool] = []
    prepare: Callable[[Sequence[Sequence[str]]], Inputs] = model.prepare
    firsts: list[str] = []

    def prepared(sentences: Sequence[Sequence[str]]) -> Inputs:
        firsts[:] = [sentence[0] for sentence in sentences]
        return prepare(sentences)

    def decode(inputs: Inputs) -> list[list[str]]:
        asked.append(model.training)
        return [DECODED[first] for first in firsts]

    monkeypatch.setattr(model, "prepare", prepared)
    monkeypatch.setattr(model, "decode", decode)
    return asked


def test_the_mask_of_annotated_tags() -> None:
    # O, B-ADE, I-ADE, B-Drug, I-Drug
    assert made("partial").annotated.tolist() == [False, False, False, True, True]
    assert made("pseudo", types=TYPES).annotated.tolist() == [False, True, True, True, True]
    assert made("outside").annotated.tolist() == [False, True, True, True, True]


def test_local_tags_are_completed_with_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = made("pseudo")
    learner.model.train()
    asked = finding(learner.model, monkeypatch)
    # The three shortest sentences come first; each result still goes to its own sentence.
    taught = learner.teacher_labels(batch_size=3)
    assert [tags.tolist() for tags in taught.tags] == [
        rows_of("O", "B-Drug", "O", "B-ADE"),  # the first ADE touches the drug and goes whole; the second stays
        rows_of("B-ADE"),
        rows_of("B-Drug", "O"),
        rows_of("O", "B-ADE", "I-ADE"),  # the drug was looked for and not annotated
    ]
    assert not taught.posteriors
    assert asked == [False, False]  # without dropout


@pytest.mark.parametrize("unknown", ["partial", "outside"])
def test_without_a_teacher_the_model_is_not_called(unknown: UnknownLabelling, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = made(unknown)
    asked = finding(learner.model, monkeypatch)
    assert learner.teacher_labels() == TeacherLabels()
    assert asked == []


@DECODERS
def test_each_sentence_gets_its_own_posterior(decoder: str) -> None:
    learner = made("posterior", decoder=decoder)
    taught = learner.teacher_labels(batch_size=3)
    assert not taught.tags
    for sentence, found in zip(SENTENCES, taught.posteriors, strict=True):
        local = torch.tensor([rows_of(*sentence.tags)])
        alone = learner.model.posterior(learner.model.prepare([sentence.words]), local, annotated=learner.annotated)
        torch.testing.assert_close(found.words, alone.words[0])
        torch.testing.assert_close(found.steps, alone.steps[0])
        torch.testing.assert_close(found.words.sum(1), torch.ones(len(sentence.words)))
        marked = [place for place, tag in enumerate(sentence.tags) if tag == "B-Drug"]
        for place, row in enumerate(found.words.tolist()):
            # A drug where it was marked and nowhere else, for certain.
            assert row[3] == pytest.approx(float(place in marked))


@DECODERS
@pytest.mark.parametrize("unknown", WAYS)
def test_the_loss_of_a_sentence_does_not_depend_on_its_batch(
    unknown: UnknownLabelling, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = made(unknown, decoder=decoder)
    finding(learner.model, monkeypatch)
    taught = learner.teacher_labels()
    order = [2, 0, 3, 1]
    together = learner.losses(order, taught)
    for place, row in enumerate(order):
        for part, alone in zip(together, learner.losses([row], taught), strict=True):
            torch.testing.assert_close(part[place], alone[0], atol=1e-5, rtol=1e-5)


@DECODERS
@pytest.mark.parametrize("unknown", WAYS)
def test_with_all_types_annotated_the_loss_is_the_plain_one(unknown: UnknownLabelling, decoder: str) -> None:
    learner = made(unknown, decoder=decoder, types=TYPES)
    plain = torch.stack([batch_loss(learner.model, [sentence]) for sentence in SENTENCES])
    source, target, silence = learner.losses(range(4), learner.teacher_labels())
    torch.testing.assert_close(source, plain, atol=1e-5, rtol=1e-5)
    # Nothing is left to teach.
    torch.testing.assert_close(target + silence, torch.zeros(4), atol=1e-5, rtol=0)


@DECODERS
def test_outside_treats_unannotated_types_as_absent(decoder: str) -> None:
    learner = made("outside", decoder=decoder)
    losses = learner.losses(range(4), learner.teacher_labels())
    plain = torch.stack([batch_loss(learner.model, [sentence]) for sentence in SENTENCES])
    torch.testing.assert_close(losses.source, plain, atol=1e-5, rtol=1e-5)
    open_ones = made("partial", decoder=decoder)
    # What is left open cannot cost more, and here every sentence leaves something open.
    assert bool((open_ones.losses(range(4), TeacherLabels()).source < losses.source).all())


@DECODERS
def test_pseudo_annotation_adds_up_to_the_loss_of_the_completed_tags(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = made("pseudo", decoder=decoder)
    finding(learner.model, monkeypatch)
    taught = learner.teacher_labels()
    whole = []
    for sentence, tags in zip(SENTENCES, taught.tags, strict=True):
        complete = TaggedSentence(sentence.words, tuple(learner.model.tags[row] for row in tags.tolist()))
        whole.append(batch_loss(learner.model, [complete]))
    losses = learner.losses(range(4), taught)
    torch.testing.assert_close(sum(losses, torch.zeros(4)), torch.stack(whole), atol=1e-4, rtol=1e-5)
    # To the third nothing was added: only that there is no more.
    assert losses.target[2].item() == pytest.approx(0.0, abs=1e-5)
    assert bool((losses.target[[0, 1, 3]] > 0.1).all())
    assert losses.silence[1].item() == pytest.approx(0.0, abs=1e-5)  # one word, and it is a mention


@DECODERS
@pytest.mark.parametrize("unknown", WAYS)
def test_teacher_labels_have_no_gradient_but_the_loss_has(unknown: UnknownLabelling, decoder: str) -> None:
    learner = made(unknown, decoder=decoder)
    taught = learner.teacher_labels()
    heard = [*taught.tags, *(part for posterior in taught.posteriors for part in posterior)]
    assert not any(part.requires_grad for part in heard)
    loss = sum(learner.losses([0, 3], taught), torch.zeros(2)).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in learner.model.parameters() if parameter.requires_grad]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize("unknown", ["pseudo", "posterior"])
def test_the_teacher_runs_without_dropout_and_is_not_changed(unknown: UnknownLabelling) -> None:
    learner = made(unknown, dropout=0.5)
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}

    def heard() -> list[Tensor]:
        learner.model.train()
        taught = learner.teacher_labels()
        return [*taught.tags, *(part for posterior in taught.posteriors for part in posterior)]

    assert all(torch.equal(one, other) for one, other in zip(heard(), heard(), strict=True))
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.model.state_dict().items())


def test_local_labels_contain_only_annotated_types() -> None:
    """Files that hold labels of ADE, also around a drug, at a site that annotates drugs alone."""
    around = Document(
        "n9", "Aspirin rash.", (Entity("T1", "ADE", (Range(0, 12),)), Entity("T2", "Drug", (Range(0, 7),)))
    )
    with_both = (*notes(3), around)
    drugs_only = [note.with_entities(e for e in note.entities if e.type == "Drug") for note in with_both]
    task = NerTask(quick_tagger(), DRUG)
    assert task.encode(with_both) == task.encode(drugs_only)
    assert task.encode(with_both)[-1] == TaggedSentence(("Aspirin", "rash", "."), ("B-Drug", "O", "O"))
    assert encode(with_both, TYPES, BIO).sentences[-1].tags == ("B-ADE", "I-ADE", "O")  # where both are looked for


def test_repr_contains_no_teacher_labels() -> None:
    assert repr(TeacherLabels((torch.tensor([1]),), (Posterior(torch.ones(1), torch.ones(1)),))) == "TeacherLabels()"
