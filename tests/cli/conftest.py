from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import (
    DEV,
    TEST,
    TRAIN,
    Ran,
    Run,
    exit_code,
    related_notes,
    train,
    train_relations,
    write_site,
)
from tests.models.tiny import write_encoder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `wardround` with these words."""
    monkeypatch.setenv("COLUMNS", "120")

    def called(*words: str | Path) -> Ran:
        capsys.readouterr()
        code = exit_code(*words)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return called


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split corpus in brat; a test must leave it as it is."""
    return write_site(tmp_path_factory.mktemp("corpora") / "ward", train=TRAIN, dev=DEV, test=TEST)


@pytest.fixture(scope="session")
def trained(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run; a test must leave it as it is."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert exit_code(*train(site, folder)) == 0
    return folder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder of two tiny layers; a test must leave it as it is."""
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="session")
def related_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split corpus of relations in brat; a test must leave it as it is."""
    parts = {"train": related_notes(16), "dev": related_notes(4, first=16), "test": related_notes(5, first=20)}
    return write_site(tmp_path_factory.mktemp("corpora") / "related", **parts)


@pytest.fixture(scope="session")
def related(related_site: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of relations; a test must leave it as it is."""
    folder = tmp_path_factory.mktemp("runs") / "related"
    assert exit_code(*train_relations(related_site, folder, encoder)) == 0
    return folder
