"""Whoever has a model that was trained too long tells its training notes from others; fresh models tell nothing."""

from __future__ import annotations

import pytest
from tests.models.tiny import notes

import wardround
from wardround.errors import UsageError
from wardround.studies.membership_audit import audit_model

Halves = tuple[tuple[wardround.Document, ...], ...]
MODEL = {"word_buckets": 8192, "word_dimension": 16, "character_layer": "none", "word_cnn": 16, "lstm": 0}


@pytest.fixture(scope="module")
def planted_and_kept() -> Halves:
    return wardround.audit.canaries(["Drug", "ADE"], count=30)  # which type a name has must be remembered


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, planted_and_kept: Halves) -> wardround.Model:
    planted, _ = planted_and_kept
    corpus = wardround.Corpus({"train": [*notes(20, seed=1), *planted], "dev": planted, "test": notes(5, seed=3)})
    settings = {"epochs": 30, "patience": 30, "learning_rate": 0.02, "batch_size": 8}
    return wardround.train(
        corpus, out=tmp_path_factory.mktemp("run"), model=MODEL, training=settings, progress=False
    ).model


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> wardround.Model:
    corpus = wardround.Corpus({"train": notes(20, seed=5), "dev": notes(10, seed=6), "test": notes(5, seed=7)})
    settings = {"epochs": 2, "learning_rate": 0.02}
    return wardround.train(
        corpus, out=tmp_path_factory.mktemp("run"), model=MODEL, training=settings, progress=False
    ).model


def test_planted_canaries_are_told_from_those_that_were_kept(
    trained: wardround.Model, reference: wardround.Model, planted_and_kept: Halves
) -> None:
    found = wardround.audit.model(trained, *planted_and_kept, reference=reference)
    assert [finding.attack for finding in found.findings] == ["loss", "loss beside a reference model"]
    # A kept canary whose type is guessed right by luck, one in two, has a small loss too: about 0.75 to 0.9.
    assert all(finding.auc.estimate > 0.75 and finding.above_chance for finding in found.findings)
    assert found.remembers and "can guess whether the note was in the training" in found.sentence
    assert found.tables[0].rows[0][:3] == ("loss", 30, 30)


def test_a_model_that_saw_neither_half_tells_nothing(reference: wardround.Model, planted_and_kept: Halves) -> None:
    found = wardround.audit.model(reference, *planted_and_kept)
    assert not found.remembers and "cannot tell its training notes from others" in found.sentence
    assert found.findings[0].auc.low < 0.5 < found.findings[0].auc.high


def test_too_few_notes_and_notes_without_words_are_refused(
    reference: wardround.Model, planted_and_kept: Halves
) -> None:
    planted, kept = planted_and_kept
    with pytest.raises(UsageError, match="there are 3 other notes; the audit needs at least 10"):
        audit_model(reference.task, planted, kept[:3])
    with pytest.raises(UsageError, match="a note has no words"):
        audit_model(reference.task, planted, [*kept, wardround.Document("empty", " ")])
