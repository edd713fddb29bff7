from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.running import DEV, NOTES, QUICK, TEST, TRAIN, Run, write_site
from tests.models.tiny import word_tagger
from wardround.models.saved import load_model, model_card, save_model
from wardround.models.transfer import layers_of, load_source
from wardround.studies.run_folder import RunFolder
from wardround.text.tag_sets import TagSet

LAYERS = ["words", "characters.embedding", "characters", "word_cnn", "output", "crf"]
ONE_EPOCH = (*QUICK, "--training-option", "epochs=1")


def transfer(source: Path, data: Path, out: Path, *more: str) -> tuple[str | Path, ...]:
    return ("transfer", source, "--data", data, "--format", "brat", "--out", out, *ONE_EPOCH, *more)


def scores(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "scores.json").read_text())
    return found


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="session")
def renamed_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same notes at a hospital that calls an effect Finding: a type that the source never saw."""
    parts = {"train": TRAIN, "dev": DEV, "test": TEST}
    renamed = {part: [TagSet.rename(note, {"ADE": "Finding"}) for note in found] for part, found in parts.items()}
    return write_site(tmp_path_factory.mktemp("corpora") / "hillside", **renamed)


def test_from_a_saved_model_to_a_report(run: Run, site: Path, trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ran = run(*transfer(trained / "model", site, folder, "--up-to", "word_cnn"))
    assert ran.code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in trained.iterdir())
    assert "first up to word_cnn" in ran.out
    for layer in LAYERS:
        assert ran.row(layer)[2] == ("copied" if LAYERS.index(layer) < 4 else "fresh")
    assert ran.row("words")[0] == ran.row("words")[1] == "1,056"  # 66 rows of 16 numbers
    assert ran.row("crf")[1:] == ["0", "fresh", "yes", "above word_cnn"]
    assert ran.out.endswith(f"model   {folder / 'model'}\nreport  {folder / 'report.html'}\n")
    note = model_card(folder / "model")["notes"]["transfer"]
    assert [(row["layer"], row["how"]) for row in note["layers"]] == [(name, ran.row(name)[2]) for name in LAYERS]
    page = (folder / "report.html").read_text()
    assert "first up to word_cnn" in page
    assert "above word_cnn" in page


def test_a_tenth_of_the_labels_after_a_transfer(run: Run, site: Path, trained: Path, tmp_path: Path) -> None:
    few = ("--fraction", "0.1", "--seed", "1")
    assert run(*transfer(trained, site, tmp_path / "with", *few)).code == 0
    save_model(word_tagger(seed=1, lstm=0), tmp_path / "untrained")
    assert run(*transfer(tmp_path / "untrained", site, tmp_path / "without", *few)).code == 0
    events = list(RunFolder(tmp_path / "with").events())
    assert events[0]["examples"] == 3 * 3  # three of thirty notes, three sentences each
    f1 = {name: scores(tmp_path / name)["strict"]["f1"] for name in ("with", "without")}
    assert f1["with"] > f1["without"] + 0.3


def test_types_that_the_source_never_saw(run: Run, renamed_site: Path, trained: Path, tmp_path: Path) -> None:
    ran = run(*transfer(trained, renamed_site, tmp_path / "run", "--training-option", "epochs=3"))
    assert ran.code == 0
    assert ran.row("crf")[1:3] == ["15", "resized"]  # three tags: start, end and nine steps
    assert "3 of 5 tags are the source's" in ran.out
    assert load_source(tmp_path / "run").tag_set.types == ("Drug", "Finding")
    assert scores(tmp_path / "run")["types"]["Finding"]["strict"]["f1"] > 0.5
    assert run(*transfer(trained, renamed_site, tmp_path / "drugs", "--types", "Drug")).code == 0
    assert load_source(tmp_path / "drugs").tag_set.types == ("Drug",)


def test_the_same_command_gives_the_same_model(run: Run, site: Path, trained: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        assert run(*transfer(trained, site, tmp_path / name, "--up-to", "characters")).code == 0
    assert weights(tmp_path / "first") == weights(tmp_path / "second")
    ran = run(*transfer(trained, site, tmp_path / "first", "--up-to", "words"))
    assert ran.code == 2
    assert "the run folder holds a training with other settings or data" in ran.err


@pytest.mark.parametrize("words", [("--freeze", "words, characters"), ("--freeze-up-to", "characters")])
def test_frozen_layers_end_as_the_source_has_them(
    run: Run, site: Path, trained: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    ran = run(*transfer(trained, site, tmp_path / "run", *words))
    assert [ran.row(layer)[3] for layer in LAYERS] == ["no", "no", "no", "yes", "yes", "yes"]
    ended, began = layers_of(load_model(tmp_path / "run" / "model")), layers_of(load_source(trained))
    same = {
        layer: all(torch.equal(began[layer][name], part) for name, part in ended[layer].items()) for layer in LAYERS
    }
    assert same == {layer: layer in LAYERS[:3] for layer in LAYERS}


def test_to_another_network(run: Run, site: Path, trained: Path, tmp_path: Path) -> None:
    to = ("--preset", "transfer", "--model-option", "word_dimension=16", "--model-option", "word_buckets=128")
    ran = run(*transfer(trained, site, tmp_path / "run", *to, "--up-to", "word_cnn"))
    assert ran.code == 0
    assert ran.row("words")[1:3] == ["2,080", "resized"]  # 130 rows of 16 numbers
    assert ran.row("characters")[2] == ran.row("word_cnn")[2] == "skipped"
    assert ran.row("lstm")[2] == "fresh"
    assert load_source(tmp_path / "run").groups == ("words", "characters", "lstm", "dense", "output", "crf")


def test_from_a_tagger_on_an_encoder(run: Run, site: Path, renamed_site: Path, encoder: Path, tmp_path: Path) -> None:
    words = ("train", site, "--format", "brat", "--out", tmp_path / "first", "--encoder", encoder, *ONE_EPOCH)
    assert run(*words).code == 0
    frozen = ("--freeze-up-to", "layer_0")
    ran = run(*transfer(tmp_path / "first", renamed_site, tmp_path / "second", "--up-to", "layer_1", *frozen))
    assert ran.code == 0
    layers = ("embeddings", "layer_0", "layer_1", "output")
    assert [ran.row(layer)[2] for layer in layers] == ["copied", "copied", "copied", "fresh"]
    assert [ran.row(layer)[3] for layer in layers] == ["no", "no", "yes", "yes"]
    ended, began = (layers_of(load_source(tmp_path / name)) for name in ("second", "first"))
    same = {
        layer: all(torch.equal(began[layer][name], part) for name, part in ended[layer].items()) for layer in layers[:3]
    }
    assert same == {"embeddings": True, "layer_0": True, "layer_1": False}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--up-to", "word_cn"), "no layer of the source is called 'word_cn' – did you mean 'word_cnn'?"),
        (("--freeze", "crff"), "no layer is called 'crff' – did you mean 'crf'?"),
        (("--freeze-up-to", "crf"), "every layer would be frozen"),
        (("--freeze", "words", "--freeze-up-to", "crf"), "--freeze and --freeze-up-to are two ways to say the same"),
        (("--fraction", "0"), "--fraction is 0.0; it is a share of the training notes"),
        (("--types", "Drugs"), "no training note has the type 'Drugs' – did you mean 'Drug'?"),
        (("--preset", "transfer"), "no layer of the source fits: words: words.weight is 66 × 16 in the source"),
        (("--model-option", "lstmm=1"), "'lstmm' is not an option of the source's network – did you mean 'lstm'?"),
    ],
)
def test_what_is_refused(run: Run, site: Path, trained: Path, tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    ran = run(*transfer(trained, site, tmp_path / "run", *more))
    assert ran.code == 2
    assert said in ran.err
    assert str(tmp_path) not in ran.err
    assert not any(note.text.split(". ")[1] in ran.said for note in NOTES)
    assert not (tmp_path / "run" / "model").exists()


def test_a_source_without_a_model(run: Run, site: Path, tmp_path: Path) -> None:
    ran = run(*transfer(tmp_path / "nowhere", site, tmp_path / "run"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("wardround: there is no folder 'nowhere'; `wardround train` writes a model")
    assert not (tmp_path / "run").exists()


def test_leakage_is_shown_for_types_that_identify_people(run: Run, trained: Path, tmp_path: Path) -> None:
    names = {"Drug": "PATIENT", "ADE": "DATE"}
    parts = {"train": TRAIN, "dev": DEV, "test": TEST}
    site = {part: [TagSet.rename(note, names) for note in found] for part, found in parts.items()}
    ran = run(*transfer(trained, write_site(tmp_path / "ward", **site), tmp_path / "run"))
    assert ran.code == 0
    leakage = scores(tmp_path / "run")["leakage"]
    assert (leakage["notes"], leakage["types"]["PATIENT"]["mentions"]) == (len(TEST), len(TEST))
    assert "Leakage: mentions by type" in ran.out
