from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from wardround.errors import ModelError
from wardround.models.model_files import load_parts, save_encoder_model
from wardround.text.relation_sets import RelationSet, RelationType

RELATIONS = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))


class Network(nn.Module):
    """A network that records the arguments with which it is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1, bias=False)
        self.saved: dict[str, Tensor] = {}

    def save_pretrained(self, folder: Path, *, state_dict: dict[str, Tensor], safe_serialization: bool) -> None:
        assert safe_serialization
        self.saved = state_dict


class Tokenizer:
    """A tokenizer that writes its name."""

    @property
    def tokenizer(self) -> Tokenizer:
        return self

    def save_pretrained(self, folder: Path) -> None:
        (folder / "tokenizer.txt").write_text("saved", encoding="utf-8")


class Model:
    """A model with two parts beside its network."""

    def __init__(self, value: float) -> None:
        self.network: Any = Network()
        self.tokenizer: Any = Tokenizer()
        self.first, self.second = nn.Linear(2, 1), nn.Linear(1, 1)
        for part in (self.first, self.second):
            nn.init.constant_(part.weight, value)
            nn.init.constant_(part.bias, value)

    @property
    def saved_parts(self) -> dict[str, nn.Module]:
        return {"first.safetensors": self.first, "second.safetensors": self.second}


def test_network_tokenizer_and_parts_are_saved_and_the_labels_returned(tmp_path: Path) -> None:
    model = Model(3.0)
    assert save_encoder_model(model, tmp_path, ("Drug", "ADE")) == {"types": ["Drug", "ADE"]}
    assert list(model.network.saved) == ["layer.weight"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "first.safetensors",
        "second.safetensors",
        "tokenizer.txt",
    ]


def test_relations_are_returned_as_values(tmp_path: Path) -> None:
    labels = save_encoder_model(Model(3.0), tmp_path, ["causes"], RELATIONS)
    assert labels == {"types": ["causes"], "relations": RELATIONS.as_values()}


def test_parts_are_loaded_from_their_own_files(tmp_path: Path) -> None:
    saved = Model(3.0)
    nn.init.constant_(saved.second.bias, 7.0)
    save_encoder_model(saved, tmp_path, ())
    fresh = Model(0.0)
    assert load_parts(fresh, tmp_path) is fresh
    torch.testing.assert_close(fresh.first.weight, torch.tensor([[3.0, 3.0]]))
    torch.testing.assert_close(fresh.first.bias, torch.tensor([3.0]))
    torch.testing.assert_close(fresh.second.weight, torch.tensor([[3.0]]))
    torch.testing.assert_close(fresh.second.bias, torch.tensor([7.0]))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    save_encoder_model(Model(3.0), folder, ())
    (folder / "second.safetensors").unlink()
    with pytest.raises(ModelError, match=r"^model/second\.safetensors is missing or damaged$"):
        load_parts(Model(0.0), folder)
