from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tests.models.tiny import TYPES, write_encoder
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="session")
def minilm() -> EncoderTagger:
    """The real encoder, loaded once: a test must leave it as it is."""
    model = EncoderTagger(EncoderTaggerConfig(encoder="minilm"), TYPES)
    model.eval()
    return model
