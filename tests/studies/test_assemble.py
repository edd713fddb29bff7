from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.tiny import TYPES, same_weights, write_encoder

from wardround.algorithms.training_config import ENCODER_RECIPE, TRANSFER_RECIPE, WORD_RECIPE
from wardround.errors import ModelError, TrainingError, UsageError
from wardround.models.encoder_tagger import EncoderTagger
from wardround.models.presets import PRESETS
from wardround.models.word_tagger import WordTagger
from wardround.studies.assemble import ModelChoice, build_model, recipe

SMALL = {"word_buckets": "32", "word_dimension": "8", "character_width": "8", "word_cnn": "8", "lstm": "4"}


def words(**options: str) -> WordTagger:
    model = build_model(ModelChoice(options=SMALL | options), TYPES, seed=0)
    assert isinstance(model, WordTagger)
    return model


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"elmoner"}))
def test_every_preset_becomes_its_network(name: str) -> None:
    model = build_model(ModelChoice(name), TYPES, seed=0)
    assert isinstance(model, WordTagger)
    assert model.config == PRESETS[name]
    assert model.tag_set == TYPES


def test_options_replace_fields_of_the_preset() -> None:
    model = words(scheme="BIOES", shared="words, characters", train_words="no")
    assert (model.config.word_buckets, model.config.lstm, model.config.train_words) == (32, 4, False)
    assert model.scheme.name == "BIOES"
    assert model.split.shared == ("words", "characters")
    assert model.config.kernel == PRESETS["fedner"].kernel


def test_weights_follow_from_the_seed_and_nothing_else() -> None:
    choice = ModelChoice(options=SMALL)
    torch.manual_seed(1)
    first = build_model(choice, TYPES, seed=3)
    torch.manual_seed(2)
    assert same_weights(build_model(choice, TYPES, seed=3), first)
    assert not same_weights(build_model(choice, TYPES, seed=4), first)


def test_building_leaves_other_randomness_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    words()
    assert torch.equal(torch.rand(3), expected)


def test_word_vectors_bring_their_words_and_their_size(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("aspirin 1 2 3\nrash 4 5 6\n")
    model = build_model(ModelChoice(vectors=tmp_path / "glove.txt", options=SMALL), TYPES, seed=0)
    assert isinstance(model, WordTagger)
    assert model.config.word_dimension == 3
    rows = model.words.weight.detach().numpy()
    assert np.array_equal(rows[-2:], [[1, 2, 3], [4, 5, 6]])


def test_an_encoder_takes_the_place_of_the_preset(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "tiny")
    model = build_model(ModelChoice(encoder=str(folder), options={"decoder": "crf", "limit": "32"}), TYPES, seed=0)
    assert isinstance(model, EncoderTagger)
    assert (model.config.encoder, model.config.decoder, model.config.limit) == (str(folder), "crf", 32)
    assert model.groups == ("embeddings", "layer_0", "layer_1", "output", "crf")


def test_an_encoder_and_word_vectors_do_not_fit_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an encoder brings its own embeddings: word vectors go with a preset only"):
        ModelChoice(encoder="minilm", vectors=tmp_path)


def test_names_that_nobody_knows() -> None:
    with pytest.raises(ModelError, match=r"^no preset is called 'fedmer' – did you mean 'fedner'\?; there are fedner,"):
        build_model(ModelChoice("fedmer"), TYPES, seed=0)
    with pytest.raises(UsageError, match=r"^'lstn' is not an option of the preset 'fedner' – did you mean 'lstm'\?"):
        words(lstn="3")
    with pytest.raises(UsageError, match=r"^'lstm' is not an option of the encoder tagger; it has encoder, decoder"):
        build_model(ModelChoice(encoder="minilm", options={"lstm": "3"}), TYPES, seed=0)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ModelChoice(), WORD_RECIPE),
        (ModelChoice("gram-cnn"), WORD_RECIPE),
        (ModelChoice("transfer"), TRANSFER_RECIPE),
        (ModelChoice(encoder="minilm"), ENCODER_RECIPE),
        (ModelChoice("transfer", encoder="minilm"), ENCODER_RECIPE),
    ],
)
def test_each_family_has_its_recipe(choice: ModelChoice, expected: object) -> None:
    assert recipe(choice, {}, seed=0) == expected


def test_a_recipe_with_other_settings() -> None:
    found = recipe(ModelChoice(), {"epochs": "3", "optimizer": "sgd", "mixed_precision": "true"}, seed=7)
    assert (found.epochs, found.optimizer, found.mixed_precision, found.seed) == (3, "sgd", True, 7)
    assert found.batch_size == WORD_RECIPE.batch_size


def test_settings_of_a_recipe_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match=r"^'epoch' is not an option of the training – did you mean 'epochs'\?"):
        recipe(ModelChoice(), {"epoch": "3"}, seed=0)
    with pytest.raises(TrainingError, match="optimizer is 'adm'"):
        recipe(ModelChoice(), {"optimizer": "adm"}, seed=0)


def test_the_seed_is_one_for_network_and_training() -> None:
    with pytest.raises(UsageError, match=r"^'seed' is not an option of the training alone: --seed sets it"):
        recipe(ModelChoice(), {"seed": "3"}, seed=0)
