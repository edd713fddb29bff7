from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.tiny import SENTENCES, TINY, TYPES, word_tagger
from wardround.errors import ModelError
from wardround.models.presets import PRESETS, WordTaggerConfig, preset
from wardround.models.vocabulary import spelling
from wardround.models.word_tagger import WordTagger
from wardround.models.word_vectors import WordVectors

SHAPES = {
    "fedner": {},
    "bare": {"character_layer": "none", "word_cnn": 0, "lstm": 0},
    "cnn": {"lstm": 0},
    "lstm": {"word_cnn": 0, "character_layer": "none"},
    "stacked": {"word_cnn": 0, "lstm_layers": 2},
    "transfer": {"character_layer": "lstm", "word_cnn": 0, "dense": 6, "scheme": "BIOES"},
    "softmax": {"decoder": "softmax"},
    "wide": {"kernel": 5},
}
VECTORS = WordVectors(("aspirin", "Rash", "rash"), np.arange(9, dtype=np.float32).reshape(3, 3))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"character_layer": "rnn"}, "character_layer is 'rnn'; it can be cnn, lstm or none"),
        ({"decoder": "beam"}, "decoder is 'beam'; it can be crf or softmax"),
        ({"shared": ("words", "gru")}, "no layer group is called gru; there are words, characters,"),
        ({"kernel": 2}, "kernel is 2; it must be odd"),
        ({"scheme": "BILOU"}, "scheme is 'BILOU'; it can be BIO, BIOES, IOB1"),
    ],
)
def test_invalid_configurations_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        word_tagger(**wrong)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_sentence_gives_the_same_numbers_in_any_batch(shape: dict[str, Any]) -> None:
    model = word_tagger(**shape).eval()
    together = model.emissions(model.prepare(SENTENCES))
    assert together.shape == (4, 8, len(model.tags))
    for row, sentence in enumerate(SENTENCES):
        alone = model.emissions(model.prepare([sentence]))[0]
        torch.testing.assert_close(together[row, : len(sentence)], alone)
    decoded = model.decode(model.prepare(SENTENCES))
    assert decoded == [model.decode(model.prepare([sentence]))[0] for sentence in SENTENCES]
    assert all(model.scheme.is_legal(tags) for tags in decoded)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_trainable_parameter_gets_a_gradient(shape: dict[str, Any]) -> None:
    model = word_tagger(**shape)
    inputs = model.prepare(SENTENCES)
    model.loss(inputs, torch.zeros(inputs.mask.shape, dtype=torch.long)).backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_prepared_inputs_by_hand() -> None:
    model = word_tagger()
    inputs = model.prepare([("No", "rash"), ("rash",)])
    assert inputs.mask.tolist() == [[True, True], [True, False]]
    assert inputs.words is not None
    no, rash = model.word_index("No"), model.word_index("rash")
    assert inputs.words.tolist() == [[no, rash], [rash, 0]]
    # Each distinct word is spelled once.
    assert inputs.spellings is not None
    assert inputs.spelled is not None
    assert inputs.spellings[:2].tolist() == [[*spelling("No"), 0, 0], list(spelling("rash"))]
    # The table is rounded up with padding, which no word points to.
    assert inputs.spellings.shape == (64, 4)
    assert not inputs.spellings[2:].any()
    assert inputs.spelled.tolist()[0] == [0, 1]
    assert inputs.spelled[1, 0] == 1
    assert inputs.pieces is None


def test_without_a_character_layer_there_are_no_spellings() -> None:
    model = word_tagger(character_layer="none")
    assert model.prepare(SENTENCES).spellings is None


def test_the_character_layer_distinguishes_words_of_one_bucket() -> None:
    plain, spelled = word_tagger(word_buckets=1, character_layer="none").eval(), word_tagger(word_buckets=1).eval()
    words = [("aspirin",), ("rash",)]
    same, other = plain.emissions(plain.prepare(words)), spelled.emissions(spelled.prepare(words))
    assert torch.equal(same[0], same[1])
    assert not torch.equal(other[0], other[1])


def test_word_vectors_bring_their_own_list_and_width() -> None:
    model = word_tagger(vectors=VECTORS)
    assert model.config.word_dimension == 3
    assert model.words.weight.shape == (2 + 3, 3)
    assert model.words.weight[2:].tolist() == VECTORS.vectors.tolist()
    assert [model.word_index(word) for word in ("aspirin", "Rash", "RASH", "fever")] == [2, 3, 4, 1]
    assert not model.words.weight[0].any()


def test_frozen_word_embeddings_are_neither_shared_nor_private() -> None:
    model = word_tagger(vectors=VECTORS, train_words=False)
    assert not model.words.weight.requires_grad
    assert "words.weight" not in {**model.shared_parameters(), **model.private_parameters()}
    assert "words" in model.groups


def test_padding_rows_stay_zero() -> None:
    model = word_tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    inputs = model.prepare(SENTENCES)
    model.loss(inputs, torch.zeros(inputs.mask.shape, dtype=torch.long)).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert not model.words.weight[0].any()
    assert not model.characters.embedding.weight[0].any()


def test_shared_groups_that_the_network_lacks_are_ignored() -> None:
    assert word_tagger(lstm=0, word_cnn=0).split.shared == ("words", "characters")
    assert word_tagger(shared=("crf", "lstm")).split.shared == ("lstm", "crf")


def test_settings_are_the_configuration_as_plain_values() -> None:
    settings = WordTagger(TINY, TYPES).settings()
    assert settings["lstm"] == 16
    assert WordTaggerConfig(**settings) == TINY


def test_only_the_mix_of_a_contextual_encoder_is_shared(tiny_encoder: Path) -> None:
    model = word_tagger(contextual=str(tiny_encoder)).eval()
    assert model.groups == ("words", "characters", "contextual", "word_cnn", "lstm", "output", "crf")
    assert [name for name in model.shared_parameters() if name.startswith("contextual")] == [
        "contextual.mix.weights",
        "contextual.mix.scale",
    ]
    together = model.emissions(model.prepare(SENTENCES))
    for row, sentence in enumerate(SENTENCES):
        alone = model.emissions(model.prepare([sentence]))[0]
        torch.testing.assert_close(together[row, : len(sentence)], alone, atol=1e-5, rtol=1e-4)


# Presets.

EMBEDDED = ("words", "characters")
PRESET_GROUPS = {
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
    assert PRESET_GROUPS.keys() == PRESETS.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_groups_and_halves_of_a_preset(name: str) -> None:
    model = WordTagger(replace(preset(name), word_buckets=16), TYPES)
    assert model.groups == PRESET_GROUPS[name]
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


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no preset is called 'fednre' – did you mean 'fedner'\?"):
        preset("fednre")
    with pytest.raises(ModelError, match="no preset is called 'x'; there are fedner, elmoner, "):
        preset("x")
