"""Strict scores agree with seqeval on tagged sentences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from wardround.evaluation.entity_scores import score_corpus
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_schemes import BIO

TYPES = ("ADE", "Dose", "Drug")
Tags = list[list[str]]


def test_one_sentence_by_hand() -> None:
    gold = [["B-Drug", "I-Drug", "O", "B-ADE"]]
    predicted = [["B-Drug", "I-Drug", "B-ADE", "I-ADE"]]
    assert score_corpus(_pairs(gold, predicted)).strict.micro.f1 == pytest.approx(0.5)
    assert f1_score(gold, predicted, mode="strict", scheme=IOB2) == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(20))
def test_well_formed_tags_agree_with_strict_seqeval(seed: int) -> None:
    gold, predicted = ([BIO.repair(tags) for tags in side] for side in _tagged(np.random.default_rng(seed)))
    _assert_agreement(gold, predicted, mode="strict", scheme=IOB2)


@pytest.mark.parametrize("seed", range(20))
def test_ill_formed_tags_agree_with_default_seqeval(seed: int) -> None:
    """Both read `I-Drug` after `O` or after another type as the beginning of a mention."""
    gold, predicted = _tagged(np.random.default_rng(seed))
    assert not all(BIO.is_legal(tags) for tags in predicted)
    _assert_agreement(gold, predicted)


def test_strict_seqeval_drops_what_is_repaired_here() -> None:
    """The one difference: seqeval's strict mode ignores a mention that begins with `I`, `BIO.repair` keeps it."""
    gold, predicted = [["B-Drug", "I-Drug", "O"]], [["I-Drug", "I-Drug", "O"]]
    assert score_corpus(_pairs(gold, predicted)).strict.micro.f1 == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert f1_score(gold, predicted, mode="strict", scheme=IOB2) == 0.0


def _assert_agreement(gold: Tags, predicted: Tags, **options: object) -> None:
    counts = score_corpus(_pairs(gold, predicted)).strict
    assert counts.micro.tp > 10 and counts.micro.fp > 10
    scorers = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
    with warnings.catch_warnings():  # seqeval warns if a type has no prediction
        warnings.filterwarnings("ignore", message=".*ill-defined.*")
        for name, scorer in scorers.items():
            assert getattr(counts.micro, name) == pytest.approx(scorer(gold, predicted, average="micro", **options))
            assert getattr(counts.macro, name) == pytest.approx(scorer(gold, predicted, average="macro", **options))
            # Both list the types that occur in sorted order.
            by_type = [getattr(ours, name) for ours in counts.values()]
            assert by_type == pytest.approx(list(scorer(gold, predicted, average=None, **options)))


def _pairs(gold: Tags, predicted: Tags) -> list[tuple[Document, Document]]:
    return [(_document(g), _document(p)) for g, p in zip(gold, predicted, strict=True)]


def _document(tags: list[str]) -> Document:
    """Words of growing length with one blank between them, so that word and character positions differ."""
    words = ["w" * (1 + position % 4) for position in range(len(tags))]
    starts = [sum(len(word) + 1 for word in words[:position]) for position in range(len(words))]
    entities = [
        Entity(f"T{number}", type_, (Range(starts[first], starts[end - 1] + len(words[end - 1])),))
        for number, (first, end, type_) in enumerate(BIO.spans(tags))
    ]
    return Document("sentence", " ".join(words), tuple(entities))


def _tagged(generator: np.random.Generator) -> tuple[Tags, Tags]:
    """Random tags, mostly ill-formed, and a copy in which one tag in four is replaced at random."""
    tags = np.array(BIO.tags(TYPES))
    gold = generator.choice(tags, size=(40, 9))
    predicted = np.where(generator.random(gold.shape) < 0.25, generator.choice(tags, size=gold.shape), gold)
    return gold.tolist(), predicted.tolist()
