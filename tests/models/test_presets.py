from __future__ import annotations

from dataclasses import replace

import pytest

from tests.models.tiny import TYPES
from wardround.errors import ModelError
from wardround.models.presets import PRESETS, preset
from wardround.models.word_tagger import WordTagger

EMBEDDED = ("words", "characters")
GROUPS = {
    "fedner": (*EMBEDDED, "word_cnn", "lstm", "output", "crf"),
    "elmoner": (*EMBEDDED, "contextual", "word_cnn", "lstm", "output", "crf"),
    "cnn-crf": ("words", "word_cnn", "output", "crf"),
    "lstm-crf": ("words", "lstm", "output", "crf"),
    "gram-cnn": (*EMBEDDED, "word_cnn", "output", "crf"),
    "cnn-lstm-crf": (*EMBEDDED, "lstm", "output", "crf"),
    "s-lstm-crf": ("words", "lstm", "output", "crf"),
    "cnn-clstm-crf": (*EMBEDDED, "word_cnn", "lstm", "output", "crf"),
    "transfer": (*EMBEDDED, "lstm", "dense", "output", "crf"),
}


def test_every_preset_is_tested() -> None:
    assert GROUPS.keys() == PRESETS.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_groups_and_halves(name: str) -> None:
    model = WordTagger(replace(preset(name), word_buckets=16), TYPES)
    assert model.groups == GROUPS[name]
    shared, private = model.shared_parameters(), model.private_parameters()
    assert shared
    assert private
    assert not shared.keys() & private.keys()
    trainable = {n for n, parameter in model.named_parameters() if parameter.requires_grad}
    assert shared.keys() | private.keys() == trainable
    assert sorted(model.split.shared + model.split.private) == sorted(model.groups)


def test_the_split_of_each_paper() -> None:
    fedner = WordTagger(replace(preset("fedner"), word_buckets=16), TYPES)
    assert fedner.split.shared == ("words", "characters", "word_cnn")
    assert fedner.split.private == ("lstm", "output", "crf")
    transfer = WordTagger(replace(preset("transfer"), word_buckets=16), TYPES)
    assert transfer.split.shared == ("words", "characters", "lstm")
    assert transfer.scheme.name == "BIOES"


def test_sizes_of_fedner() -> None:
    """FedNER, Section 4.1: 200 filters of 3, 200 states; characters of 100."""
    model = WordTagger(replace(preset("fedner"), word_buckets=16), TYPES)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes["words.weight"] == (16 + 2, 100)
    assert shapes["characters.convolution.weight"] == (200, 100, 3)
    assert shapes["word_cnn.convolution.weight"] == (200, 100 + 200, 3)
    assert shapes["lstm.forwards.0.weight_hh_l0"] == (4 * 200, 200)
    assert shapes["output.weight"] == (5, 400)
    assert shapes["crf.step"] == (5, 5)


def test_the_stacked_lstm_has_two_layers() -> None:
    model = WordTagger(replace(preset("s-lstm-crf"), word_buckets=16), TYPES)
    assert len(model.lstm.forwards) == 2


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(ModelError, match=r"no preset is called 'fednre' – did you mean 'fedner'\?"):
        preset("fednre")
    with pytest.raises(ModelError, match="no preset is called 'x'; there are fedner, elmoner, "):
        preset("x")
