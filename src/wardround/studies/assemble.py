"""From names to objects: the one place where a preset, an encoder or a word-vector file becomes a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from wardround.algorithms.training_config import ENCODER_RECIPE, TRANSFER_RECIPE, WORD_RECIPE, TrainingConfig
from wardround.errors import UsageError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.presets import preset
from wardround.models.tagging_model import TaggingModel
from wardround.models.word_tagger import WordTagger
from wardround.models.word_vectors import load_word_vectors
from wardround.settings import with_settings
from wardround.text.tag_sets import TagSet

__all__ = ["ModelChoice", "build_model", "recipe"]


@dataclass(frozen=True)
class ModelChoice:
    """Which network: a preset, or an encoder; options are fields of its configuration, as text."""

    preset: str = "fedner"
    encoder: str = ""  # takes the preset's place
    vectors: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.encoder and self.vectors:
            raise UsageError("an encoder brings its own embeddings: word vectors go with a preset only")


def build_model(choice: ModelChoice, tag_set: TagSet, *, seed: int) -> TaggingModel:
    """The network with fresh weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if choice.encoder:
            config = with_settings(EncoderTaggerConfig(encoder=choice.encoder), choice.options, "the encoder tagger")
            return EncoderTagger(config, tag_set)
        words = with_settings(preset(choice.preset), choice.options, f"the preset {choice.preset!r}")
        vectors = None if choice.vectors is None else load_word_vectors(choice.vectors)
        return WordTagger(words, tag_set, vectors)


def recipe(choice: ModelChoice, options: Mapping[str, str], *, seed: int) -> TrainingConfig:
    """The training that goes with the network, with `options` replaced."""
    if "seed" in options:
        raise UsageError("'seed' is not an option of the training alone: --seed sets it for the network too")
    if choice.encoder:
        base = ENCODER_RECIPE
    else:
        base = TRANSFER_RECIPE if choice.preset == "transfer" else WORD_RECIPE
    return replace(with_settings(base, options, "the training"), seed=seed)
