"""What a model family declares: how its models are chosen, built, saved, loaded, transferred and trained.

The file of a model ends with `FAMILY = ModelFamily(...)`. One line of `family_table`, or one entry point of an
installed package in the group `wardround.models`, makes it known to studies, commands and saved models:

    [project.entry-points."wardround.models"]
    my-tagger = "mypackage.tagger:FAMILY"

A study chooses such a family by its name, `[model] family = "my-tagger"`; `wardround train` by `--family my-tagger`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wardround.errors import ModelError, UsageError
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_sets import TagSet

if TYPE_CHECKING:  # a declaration only refers to networks, and the presets must be readable without torch
    from torch import Tensor

    from wardround.models.parameter_split import LayeredModel

__all__ = [
    "ADAPTER_TRAINING",
    "ENCODER_TRAINING",
    "Labels",
    "LayerWeights",
    "ModelChoice",
    "ModelFamily",
    "check_choice",
    "check_share",
    "check_size",
]

# Default settings of the training of pretrained encoders.
ENCODER_TRAINING: Mapping[str, Any] = {
    "epochs": 15,
    "batch_size": 32,
    "optimizer": "adamw",
    "learning_rate": 1e-4,
    "output_learning_rate": 1e-3,
    "weight_decay": 0.01,
    "warmup": 0.1,
    "clip": 1.0,
    "patience": 5,
    "mixed_precision": True,
}
# Layers added to a frozen network start from nothing: they need learning rates that would ruin a pretrained network.
ADAPTER_TRAINING: Mapping[str, Any] = {
    **ENCODER_TRAINING,
    "batch_size": 16,
    "learning_rate": 5e-3,
    "output_learning_rate": 5e-3,
}


@dataclass(frozen=True)
class ModelChoice:
    """Which network to build: a preset, an encoder, a BART, or a family by name.

    Options are fields of its configuration, as text.
    """

    preset: str = "fedner"
    encoder: str = ""  # used instead of the preset
    vectors: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    bart: str = ""  # used instead of the preset
    family: str = ""  # a name in the table of families; only needed for families of installed packages

    def __post_init__(self) -> None:
        if self.encoder and self.bart:
            raise UsageError("encoder and bart name two networks; set only one of them")
        if (self.encoder or self.bart) and self.vectors:
            raise UsageError("an encoder has its own embeddings; word vectors can only be used with a preset")

    @property
    def chosen_by(self) -> str:
        """Return the setting that names the network."""
        return "encoder" if self.encoder else "bart" if self.bart else "preset"

    @property
    def name(self) -> str:
        """Return the name of the network."""
        return self.encoder or self.bart or self.family or self.preset


@dataclass(frozen=True)
class Labels:
    """What a model learns to predict: types of entities, and types of relations between them."""

    types: TagSet = field(default_factory=lambda: TagSet(()))
    relations: RelationSet | None = None

    @property
    def named_relations(self) -> RelationSet:
        """Return the types of relations, which every task that predicts relations names."""
        assert self.relations is not None, "a task of relations names them"
        return self.relations


@dataclass(frozen=True)
class LayerWeights:
    """What one layer takes from a source model; a layer without weights is skipped, and `why` gives the reason."""

    weights: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: int = 0  # of the weights, how many come from the source
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelFamily:
    """One family of models."""

    name: str  # the kind in the card of a saved model, and `kind` of its model class
    tasks: tuple[str, ...]  # that it serves, the default one first
    chosen_by: tuple[str, ...] = ()  # settings that choose it for these tasks: preset, encoder, bart
    default_encoder: str = ""  # used if the choice names no encoder
    configure: Callable[[ModelChoice], Any]  # return the configuration
    build: Callable[[Any, Labels, ModelChoice], LayeredModel]  # build from a configuration, with fresh weights
    save: Callable[[Any, Path], dict[str, Any]]  # write the weights to a folder; return values for the card
    load: Callable[[Path, dict[str, Any]], LayeredModel]  # read the model of a folder and its card
    training: Callable[[ModelChoice], Mapping[str, Any]] = lambda choice: {}  # default settings of `TrainingConfig`

    # Layer-wise transfer; families without `rebuild` do not support it.
    rebuild: Callable[[Any, Labels, ModelChoice], LayeredModel] | None = None  # build a fresh model like a trained one
    choice_like: Callable[[Any], ModelChoice] = lambda model: ModelChoice()  # the choice that describes a trained one
    # Return what a target takes from a source in one layer; None: all of it if names and shapes match, else nothing.
    transfer_layer: Callable[[Any, Any, str], LayerWeights | None] = lambda source, target, layer: None


_LARGEST_SIZE = 100_000_000  # a network is built before its weights are read: its card alone could claim all memory


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `ModelError` unless a setting is one of a few words."""
    if value not in choices:
        raise ModelError(f"{name} is {value!r}; it can be {', '.join(choices[:-1])} or {choices[-1]}")


def check_size(name: str, value: int, *, least: int) -> None:
    """Raise `ModelError` if a size is too small or absurdly large."""
    if value < least:
        raise ModelError(f"{name} is {value}; it must be at least {least}")
    if value > _LARGEST_SIZE:
        raise ModelError(f"{name} is {value}; it must be at most {_LARGEST_SIZE:,}")


def check_share(name: str, value: float) -> None:
    """Raise `ModelError` unless a dropout rate is at least 0 and below 1."""
    if not 0.0 <= value < 1.0:
        raise ModelError(f"{name} is {value}; it must be at least 0 and below 1")
