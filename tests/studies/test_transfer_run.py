from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.tiny import TINY, notes, same_weights, write_encoder
from tests.studies.tiny_studies import learnable, run

from wardround.errors import ModelError, StudyError, TrainingError, UsageError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.families import ENCODER_TRAINING, ModelChoice
from wardround.models.family_table import build_model
from wardround.models.presets import preset
from wardround.models.saved import load_model, model_card, save_model
from wardround.models.tagging_model import TaggingModel
from wardround.models.transfer import layers_of, load_source, plan_transfer, warm_start
from wardround.models.word_tagger import WordTagger
from wardround.models.word_vectors import WordVectors
from wardround.studies.assemble import chosen_types, common_model
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import SiteData, train_at_one_site
from wardround.studies.study_file import parse_study, study_for_kits, to_toml
from wardround.studies.transfer_run import (
    TransferredModel,
    TransferSettings,
    begin,
    part_of,
    saved_transfer_table,
    target_network,
    training_of,
    transfer_table,
)
from wardround.tasks.ner import NerTask
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import TrainingConfig

NOTES = notes(20)
DATA = SiteData(NOTES[:12], NOTES[12:16], NOTES[16:])
ONE_EPOCH = TrainingConfig(epochs=1, batch_size=8, learning_rate=0.02)
BOTH, DRUG = TagSet(("ADE", "Drug")), TagSet(("Drug",))
OWN = ModelChoice(preset="")
STUDY = """
[study]
name = "small"
[sites.harbour]
built_in = "harbour-0000"
types = ["Drug"]
"""

TRANSFER = TrainingConfig(
    epochs=100, batch_size=8, optimizer="sgd", learning_rate=0.1, schedule="constant", patience=10, seed=3
)


def tagger(types: TagSet = BOTH, *, seed: int = 0, **changes: object) -> WordTagger:
    torch.manual_seed(seed)
    return WordTagger(replace(TINY, **changes), types)  # type: ignore[arg-type]


def begun(transfer: TransferSettings) -> TransferredModel:
    source = tagger(seed=1)
    return begin(source, target_network(source, OWN, DRUG, seed=2), transfer)


def same_layers(left: TaggingModel, right: TaggingModel, names: Sequence[str]) -> bool:
    mine, theirs = layers_of(left), layers_of(right)
    return all(torch.equal(part, theirs[layer][name]) for layer in names for name, part in mine[layer].items())


# The network.


def test_by_default_the_target_is_like_the_source() -> None:
    source = tagger(seed=1, kernel=5)
    target = target_network(source, ModelChoice(preset="", options={"dropout": "0.3"}), DRUG, seed=4)
    assert isinstance(target, WordTagger)
    assert target.config == replace(source.config, dropout=0.3)
    assert target.tag_set == DRUG
    assert same_weights(target, tagger(DRUG, seed=4, kernel=5))


def test_fresh_layers_are_those_of_a_training_without_a_source() -> None:
    options = {"word_buckets": "16", "lstm": "8", "dense": "4"}
    choice = ModelChoice("transfer", options=options)
    alone = build_model(choice, DRUG, seed=3)
    assert isinstance(alone, WordTagger)
    source = build_model(choice, BOTH, seed=1)
    assert isinstance(source, WordTagger)
    target = begin(source, target_network(source, choice, DRUG, seed=3), TransferSettings("characters")).model
    assert same_layers(target, source, ["words", "characters.embedding", "characters"])
    assert same_layers(target, alone, ["lstm", "dense", "output", "crf"])


def test_choosing_a_network_leaves_the_random_state_alone() -> None:
    source = tagger(seed=1)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    target_network(source, OWN, DRUG, seed=2)
    assert torch.equal(torch.rand(1), expected)


def test_the_word_list_of_the_source_is_copied() -> None:
    vectors = WordVectors(("rash", "ward"), np.ones((2, 4), dtype=np.float32))
    source = WordTagger(TINY, BOTH, vectors)
    beginning = begin(source, target_network(source, OWN, DRUG, seed=2), TransferSettings("words"))
    assert isinstance(beginning.model, WordTagger)
    assert beginning.model.word_index("ward") == source.word_index("ward") == 3
    assert beginning.report.layers[0].how == "copied"


def test_a_missing_encoder_is_refused(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "tiny")
    save_model(EncoderTagger(EncoderTaggerConfig(encoder=str(encoder)), BOTH), tmp_path / "model")
    source = load_source(tmp_path / "model")
    assert target_network(source, OWN, DRUG, seed=0).tag_set == DRUG
    with pytest.raises(UsageError, match=r"leave --vectors out$"):
        target_network(source, ModelChoice(preset="", vectors=tmp_path / "words.txt"), DRUG, seed=0)
    encoder.rename(tmp_path / "moved")
    with pytest.raises(ModelError, match=r"^the encoder of the source, 'tiny', is not on this machine; name "):
        target_network(source, OWN, DRUG, seed=0)
    around = target_network(source, ModelChoice(encoder=str(tmp_path / "model")), DRUG, seed=0)
    assert [row.how for row in plan_transfer(source, around).layers] == ["copied"] * 3 + ["resized"]


def test_the_recipe_goes_with_the_network(tmp_path: Path) -> None:
    papers = WordTagger(replace(preset("transfer"), word_buckets=8), DRUG)
    assert training_of(papers, {}, seed=3) == TRANSFER
    # Lee 2017, Section 3: plain gradient descent, a patience of ten epochs.
    assert (TRANSFER.optimizer, TRANSFER.patience) == ("sgd", 10)
    assert training_of(tagger(), {"epochs": "2"}, seed=0) == replace(TrainingConfig(), epochs=2)
    encoder = EncoderTagger(EncoderTaggerConfig(encoder=str(write_encoder(tmp_path / "tiny"))), DRUG)
    assert training_of(encoder, {}, seed=0) == TrainingConfig(**ENCODER_TRAINING)


# Freezing and training.


def test_frozen_layers_are_as_they_began_after_an_epoch_and_the_others_are_not(tmp_path: Path) -> None:
    beginning = begun(TransferSettings("lstm", freeze_up_to="characters"))
    assert beginning.frozen == ("words", "characters.embedding", "characters")
    train_at_one_site(NerTask(beginning.model), DATA, ONE_EPOCH, folder=RunFolder(tmp_path))
    source = tagger(seed=1)
    assert same_layers(beginning.model, source, beginning.frozen)
    for layer in ("word_cnn", "lstm"):
        assert not same_layers(beginning.model, source, [layer])
    saved = load_model(tmp_path / "model")
    assert isinstance(saved, WordTagger)
    assert same_layers(saved, source, beginning.frozen)


def test_with_frozen_output_layers_the_layers_below_are_trained(tmp_path: Path) -> None:
    beginning = begun(TransferSettings(freeze=("output", "crf")))
    expected = target_network(tagger(seed=1), OWN, DRUG, seed=2)
    plan_transfer(tagger(seed=1), expected).put_into(expected)
    train_at_one_site(NerTask(beginning.model), DATA, ONE_EPOCH, folder=RunFolder(tmp_path))
    assert same_layers(beginning.model, expected, ["output", "crf"])
    assert not same_layers(beginning.model, expected, ["words"])


def test_freeze_and_freeze_up_to_are_refused_together() -> None:
    with pytest.raises(UsageError, match=r"^--freeze and --freeze-up-to are two ways to say the same"):
        TransferSettings(freeze=("words",), freeze_up_to="lstm")


def test_the_card_tells_where_the_model_began(tmp_path: Path) -> None:
    beginning = begun(TransferSettings("words", freeze=("words",)))
    train_at_one_site(NerTask(beginning.model), DATA, ONE_EPOCH, folder=RunFolder(tmp_path), notes=beginning.notes())
    told = model_card(tmp_path / "model")["notes"]
    assert told["scored_on"] == "test"
    assert (told["transfer"]["up_to"], told["transfer"]["frozen"]) == ("words", ["words"])
    assert told["transfer"]["layers"][0]["how"] == "copied"
    assert [row["layer"] for row in told["transfer"]["layers"]] == list(layers_of(beginning.model))


def test_a_run_resumes_only_with_the_same_source(tmp_path: Path) -> None:
    def trained(transfer: TransferSettings) -> TaggingModel:
        beginning = begun(transfer)
        folder, task = RunFolder(tmp_path), NerTask(beginning.model)
        train_at_one_site(task, DATA, ONE_EPOCH, folder=folder, notes=beginning.notes())
        return beginning.model

    first = trained(TransferSettings("lstm"))
    assert same_weights(trained(TransferSettings("lstm")), first)
    for other in (TransferSettings("words"), TransferSettings("lstm", freeze=("words",))):
        with pytest.raises(TrainingError, match=r"^the run folder holds a training with other settings or data"):
            trained(other)


def test_the_same_transfer_twice_gives_the_same_model(tmp_path: Path) -> None:
    models = []
    for name in ("first", "second"):
        beginning = begun(TransferSettings("lstm"))
        train_at_one_site(NerTask(beginning.model), DATA, ONE_EPOCH, folder=RunFolder(tmp_path / name))
        models.append(beginning.model)
    assert same_weights(*models)


def test_the_table_of_layers() -> None:
    table = transfer_table(begun(TransferSettings("lstm", freeze=("lstm",))), "run up to lstm")
    assert table.columns == ("layer", "parameters", "of the source", "what happened", "trains", "why")
    assert table.rows[0] == ("words", 66 * 16, 66 * 16, "copied", "yes", "")
    assert table.rows[4][3:] == ("copied", "no", "")
    assert table.rows[5] == ("output", 3 * 32 + 3, 0, "fresh", "yes", "above lstm")
    taken = sum(int(row[2] or 0) for row in table.rows)
    assert table.totals[0][2] == taken


# Notes.


def test_a_fraction_of_the_training_notes() -> None:
    half, third = part_of(DATA, 0.5, seed=1), part_of(DATA, 0.25, seed=1)
    assert (len(half.train), len(third.train)) == (6, 3)
    assert {note.id for note in third.train} < {note.id for note in half.train} < {note.id for note in DATA.train}
    assert (half.dev, half.test) == (DATA.dev, DATA.test)
    assert part_of(DATA, 0.5, seed=1) == half
    assert part_of(DATA, 0.5, seed=2) != half
    assert part_of(DATA, 1.0, seed=1) == DATA


def test_development_notes_are_taken_before_the_fraction() -> None:
    whole = SiteData(NOTES)
    assert part_of(whole, 0.5, seed=0).dev == whole.with_dev(0).dev
    assert len(part_of(whole, 0.5, seed=0).train) == 9


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, float("nan")])
def test_an_invalid_fraction_is_refused(fraction: float) -> None:
    with pytest.raises(UsageError, match=r"it is a share of the training notes, above 0 and up to 1$"):
        part_of(DATA, fraction, seed=0)


def test_a_fraction_of_too_few() -> None:
    with pytest.raises(UsageError, match=r"^12 training notes are too few to take 0\.01 of them$"):
        part_of(DATA, 0.01, seed=0)


def test_types_to_learn() -> None:
    assert chosen_types(NOTES, None) == BOTH
    assert chosen_types(NOTES, ["Drug"]) == DRUG
    with pytest.raises(UsageError, match=r"^no training note has the type 'Drugs' – did you mean 'Drug'\?"):
        chosen_types(NOTES, ["Drugs"])
    with pytest.raises(UsageError, match=r"^the training notes contain no entity to learn from$"):
        chosen_types([note.with_entities(()) for note in NOTES], None)


# Federated models.


def test_a_federated_model_is_a_source_and_a_study_starts_from_one(tmp_path: Path) -> None:
    west = {"types": ["Drug", "ADE"], "scheme": "BIO"}
    study = learnable(
        tmp_path / "notes",
        algorithm={"name": "fedavg", "rounds": 1},
        model={"shared": ["all"]},
        sites={"west": west, "east": {"types": ["Drug", "ADE"]}},
    )
    run(study, tmp_path / "run")
    common, at_site = (load_source(tmp_path / "run" / place) for place in ("model", "sites/east/model"))
    assert same_weights(load_source(tmp_path / "run"), common)
    for source in (common, at_site):
        beginning = begin(source, target_network(source, OWN, DRUG, seed=9), TransferSettings())
        assert [row.how for row in beginning.report.layers] == ["copied", "copied", "resized", "resized"]
        assert same_layers(beginning.model, source, ["words", "word_cnn"])

    fresh = common_model(study)
    assert isinstance(fresh, WordTagger)
    assert not same_weights(fresh, common)
    report = warm_start(fresh, tmp_path / "run", up_to="word_cnn")
    assert report.up_to == "word_cnn"
    assert same_layers(fresh, common, ["words", "word_cnn"])
    warm_start(fresh, tmp_path / "run" / "sites" / "east")
    assert same_weights(fresh, at_site)


def test_a_study_starts_from_the_weights_of_a_saved_model(tmp_path: Path) -> None:
    model = common_model(parse_study(STUDY))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.25)
    save_model(model, tmp_path / "source")
    begun = common_model(parse_study(STUDY + '[model]\nstart = "source"\n', folder=tmp_path))
    assert begun.split == model.split and begun.split.private
    shared = model.shared_parameters()
    assert all(torch.equal(part, shared[name]) for name, part in begun.shared_parameters().items())
    fresh = common_model(parse_study(STUDY)).private_parameters()
    assert all(torch.equal(part, fresh[name]) for name, part in begun.private_parameters().items())


def test_how_much_of_a_start_needs_a_start() -> None:
    with pytest.raises(StudyError, match=r"^\[model\] start_up_to limits what is copied from a start; name the start"):
        parse_study(STUDY + '[model]\nstart_up_to = "words"\n')


def test_a_start_is_in_no_kit_without_the_digest_of_its_layers(tmp_path: Path) -> None:
    study = parse_study(STUDY + '[model]\nstart = "source"\n', folder=tmp_path)
    with pytest.raises(StudyError, match=r"^\[model\] start is written to kits as a digest of its layers"):
        study_for_kits(study)
    assert "source" not in to_toml(study.for_hospitals())


def test_a_saved_table_of_a_layer_that_was_resized_and_frozen() -> None:
    reason = "each of 2 buckets became one"
    layer = {"layer": "words", "parameters": 1056, "taken": 528, "how": "resized", "why": reason}
    table = saved_transfer_table(
        {"up_to": "word_cnn", "layers": [layer], "weights_sha256": "ab12", "frozen": ["words"]}
    )
    assert table is not None
    assert table.rows == (("words", 1056, 528, "resized", "yes", reason),)
    assert (table.totals[0][:3], table.note) == (("all", 1056, 528), "Digest of the copied weights: ab12")
