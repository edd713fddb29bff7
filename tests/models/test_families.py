from __future__ import annotations

import pytest

from wardround.errors import ModelError
from wardround.models.encoder_tagger import EncoderTaggerConfig
from wardround.models.families import Labels, check_choice, check_share, check_size
from wardround.models.presets import WordTaggerConfig
from wardround.text.relation_sets import RelationSet, RelationType


def test_a_choice() -> None:
    check_choice("decoder", "crf", ("crf", "softmax"))
    with pytest.raises(ModelError, match="decoder is 'crv'; it can be crf or softmax"):
        check_choice("decoder", "crv", ("crf", "softmax"))


def test_a_size() -> None:
    check_size("lstm", 0, least=0)
    with pytest.raises(ModelError, match="lstm is -1; it must be at least 0"):
        check_size("lstm", -1, least=0)


@pytest.mark.parametrize("value", [-0.1, 1.0, 2.0, float("nan")])
def test_a_share(value: float) -> None:
    check_share("dropout", 0.0)
    with pytest.raises(ModelError, match="dropout is"):
        check_share("dropout", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("lstm", -1), ("word_dimension", 0), ("lstm_layers", 0), ("dropout", 2.0), ("input_dropout", -1.0), ("kernel", 4)],
)
def test_a_word_tagger_names_the_field(name: str, value: float) -> None:
    with pytest.raises(ModelError, match=name):
        WordTaggerConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [("dropout", 1.0), ("limit", 1), ("overlap", -1), ("decoder", "none")])
def test_an_encoder_tagger_names_the_field(name: str, value: float) -> None:
    with pytest.raises(ModelError, match=name):
        EncoderTaggerConfig(**{name: value})  # type: ignore[arg-type]


def test_labels_of_a_task_of_relations_name_them() -> None:
    relations = RelationSet((RelationType("causes"),))
    assert Labels(relations=relations).named_relations is relations
    with pytest.raises(AssertionError, match="names them"):
        _ = Labels().named_relations
