"""A tagger that learned the built-in PHI hospital in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import exit_code, write_site
from wardround.corpora.synthetic.notes import SyntheticSite
from wardround.corpora.synthetic.phi_notes import PhiConfig, phi_hospitals
from wardround.models.saved import load_model
from wardround.tasks.task import Task
from wardround.tasks.task_table import task_of

# A network without an LSTM; a few dozen notes.
_MODEL = (
    *("--model-option", "lstm=0", "--model-option", "word_cnn=32", "--model-option", "word-buckets=256"),
    *("--model-option", "word_dimension=24", "--model-option", "character_dimension=12"),
    *("--model-option", "character_width=32", "--model-option", "input_dropout=0.1", "--model-option", "dropout=0.1"),
)
_TRAINING = (
    *("--training-option", "epochs=4", "--training-option", "batch_size=8"),
    *("--training-option", "learning_rate=0.01", "--device", "cpu"),
)


@pytest.fixture(scope="session")
def hospital() -> SyntheticSite:
    """Notes full of names and numbers, about nobody."""
    return phi_hospitals(config=PhiConfig(source_notes=(100, 10, 30), target_notes=(1, 1, 1)))[0]


@pytest.fixture(scope="session")
def phi_model(hospital: SyntheticSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its model; a test must leave it as it is."""
    folder = tmp_path_factory.mktemp("phi")
    data = write_site(folder / "data", train=hospital.train, dev=hospital.dev, test=hospital.test)
    words = ("train", data, "--format", "brat", "--out", folder / "run", *_MODEL, *_TRAINING)
    assert exit_code(*words) == 0
    return folder / "run" / "model"


@pytest.fixture
def phi_task(phi_model: Path) -> Task:
    """Its model, to find entities."""
    return task_of(load_model(phi_model))
