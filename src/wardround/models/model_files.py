"""The files of a saved model, as model families write and read them: tensors, configurations and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from wardround.errors import ModelError, TextError
from wardround.models.adapters import merged_weights
from wardround.models.cards import CARD
from wardround.models.encoders import PieceTokenizer, quiet_transformers
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_sets import TagSet

__all__ = [
    "CRF",
    "OUTPUT",
    "PROMPT",
    "WEIGHTS",
    "EncoderModel",
    "fill",
    "load_parts",
    "load_tensors",
    "read_configuration",
    "relation_set_of",
    "save_encoder_model",
    "save_tensors",
    "tag_set_of",
]

WEIGHTS = "model.safetensors"
CRF, OUTPUT, PROMPT = "crf.safetensors", "output.safetensors", "prompt.safetensors"

Config = TypeVar("Config")


class EncoderModel(Protocol):
    """A model on a Hugging Face network, with further trained parts in files of their own."""

    network: Any
    tokenizer: PieceTokenizer

    @property
    def saved_parts(self) -> Mapping[str, nn.Module]:
        """Return the parts beside the network, by the names of their files."""


Model = TypeVar("Model", bound=EncoderModel)


def read_configuration(kind: type[Config], card: Mapping[str, Any], folder: Path) -> Config:
    """Return the configuration of a card; raise `ModelError` if a setting has another type than its field."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in card["config"].items()
    }
    kinds = {field.name: type(field.default) for field in fields(kind)}  # type: ignore[arg-type]
    wrong = [
        name
        for name, value in given.items()
        if type(value) is not kinds.get(name) and not (kinds.get(name) is float and type(value) is int)
    ]
    if wrong:
        raise ModelError(f"{folder.name}/{CARD}: this version cannot use the values of {', '.join(wrong)}")
    return kind(**given)


def tag_set_of(card: Mapping[str, Any], folder: Path) -> TagSet:
    """Return the entity types of a card."""
    try:
        return TagSet(tuple(card["types"]))
    except TextError as error:
        raise ModelError(f"{folder.name}/{CARD}: {error}") from error


def relation_set_of(card: Mapping[str, Any], folder: Path) -> RelationSet:
    """Return the relation types of a card."""
    try:
        return RelationSet.from_values(card.get("relations"))
    except TextError as error:
        raise ModelError(f"{folder.name}/{CARD}: {error}") from error


def save_encoder_model(
    model: EncoderModel, folder: Path, types: Sequence[str], relations: RelationSet | None = None
) -> dict[str, Any]:
    """Write network and tokenizer as a Hugging Face folder, and the other parts beside them; return the card's labels.

    LoRA layers are merged into the layers that they adapt.
    """
    with quiet_transformers():
        model.network.save_pretrained(folder, state_dict=merged_weights(model.network), safe_serialization=True)
        model.tokenizer.tokenizer.save_pretrained(folder)
    for name, part in model.saved_parts.items():
        save_tensors(part.state_dict(), folder / name)
    labels: dict[str, Any] = {"types": list(types)}
    return labels if relations is None else labels | {"relations": relations.as_values()}


def load_parts(model: Model, folder: Path) -> Model:
    """Load the parts beside the network of a model that was built from `folder`; return the model."""
    for name, part in model.saved_parts.items():
        fill(part, load_tensors(folder / name), folder)
    return model


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors to a safetensors file."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.parent.name}/{path.name} is missing or damaged") from error


def fill(module: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Load weights into a module; raise `ModelError` if they do not fit."""
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelError(f"{folder.name}: the weights do not fit the model card") from error
