"""A model and a service for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the service needs wardround[serve]")
pytest.importorskip("prometheus_client", reason="the service needs wardround[serve]")

from starlette.testclient import TestClient
from tests.models.tiny import notes, word_tagger

import wardround
from wardround.models.saved import save_model
from wardround.models.word_tagger import WordTagger
from wardround.serving.service import app_of
from wardround.text.tag_sets import TagSet

Client = Callable[..., TestClient]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained word model with a CRF."""
    folder = tmp_path_factory.mktemp("served")
    wardround.train(
        wardround.Corpus({"train": notes(40, seed=1), "dev": notes(30, seed=2), "test": notes(6, seed=3)}),
        out=folder / "run",
        model={"word_buckets": 64, "word_dimension": 8, "character_width": 8, "word_cnn": 8, "lstm": 8},
        training={"epochs": 15, "learning_rate": 0.03, "batch_size": 4},
        progress=False,
    )
    return folder / "run" / "model"


@pytest.fixture(scope="session")
def model(model_folder: Path) -> wardround.Model:
    return wardround.load(model_folder)


@pytest.fixture(scope="session")
def phi_model(tmp_path_factory: pytest.TempPathFactory) -> wardround.Model:
    """An untrained model of types that identify people."""
    folder = tmp_path_factory.mktemp("phi") / "model"
    tagger = word_tagger()
    save_model(WordTagger(tagger.config, TagSet(("DATE", "PATIENT"))), folder)
    return wardround.load(folder)


@pytest.fixture
def client(model: wardround.Model) -> Iterator[Client]:
    """Start a service with the options of `app_of`, and return a client on this machine."""
    with ExitStack() as stack:

        def started(served: Any = None, *, inside: bool = True, **options: Any) -> TestClient:
            opened = TestClient(
                app_of(served or model, **options), base_url="http://localhost:8810", raise_server_exceptions=True
            )
            return stack.enter_context(opened) if inside else opened

        yield started
