from __future__ import annotations

import pytest
from torch import nn

from wardround.errors import ModelError
from wardround.models.parameter_split import LayeredModel, ParameterSplit

GROUPS = ("words", "lstm", "crf")


class Layers(LayeredModel):
    """Three groups; one weight of the first is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.crf = nn.Linear(1, 2), nn.Linear(2, 2), nn.Linear(2, 1)
        self.words.bias.requires_grad_(False)
        self.split = ParameterSplit.sharing(["words", "crf"], GROUPS)

    @property
    def groups(self) -> tuple[str, ...]:
        return GROUPS


def test_what_is_not_shared_is_private() -> None:
    assert ParameterSplit.sharing(["lstm"], GROUPS) == ParameterSplit(("lstm",), ("words", "crf"))
    assert ParameterSplit.sharing([], GROUPS) == ParameterSplit((), GROUPS)


def test_the_order_is_that_of_the_model() -> None:
    assert ParameterSplit.sharing(["crf", "words"], GROUPS).shared == ("words", "crf")


def test_a_group_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="no layer group is called cnn; this model has words, lstm, crf"):
        ParameterSplit.sharing(["cnn"], GROUPS)


def test_a_group_cannot_be_in_both_halves() -> None:
    with pytest.raises(ModelError, match="cannot be shared and private: lstm"):
        ParameterSplit(("lstm", "words"), ("crf", "lstm"))


def test_the_halves_hold_the_trainable_parameters() -> None:
    model = Layers()
    assert list(model.shared_parameters()) == ["words.weight", "crf.weight", "crf.bias"]
    assert list(model.private_parameters()) == ["lstm.weight", "lstm.bias"]
    assert list(model.parameters_in(["lstm", "words"])) == ["words.weight", "lstm.weight", "lstm.bias"]
    assert model.shared_parameters()["crf.bias"] is model.crf.bias


def test_output_names_are_the_parameters_of_output_layers() -> None:
    model = Layers()
    assert model.output_names(dict(model.named_parameters())) == ["crf.weight", "crf.bias"]
    assert model.output_names(["crf.bias", "words.weight", "output.weight"]) == ["crf.bias", "output.weight"]
