from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.running import QUICK, Ran, Run
from tests.models.tiny import quick_tagger
from wardround.cli.model import groups_table
from wardround.models.presets import PRESETS
from wardround.studies.transfer_run import saved_transfer_table


def test_show_says_what_a_model_is(run: Run, trained: Path) -> None:
    ran = run("model", "show", trained / "model")
    assert (ran.code, ran.err) == (0, "")
    assert ran.row("kind") == ["word-tagger"]
    assert ran.row("scheme") == ["BIO"]
    assert ran.row("types") == ["ADE, Drug"]
    assert ran.row("scored_on") == ["test"]
    f1 = json.loads((trained / "scores.json").read_text())["strict"]["f1"]
    assert ran.row("strict_f1") == [f"{f1:.3f}"]


def test_show_says_what_a_model_of_relations_is(run: Run, related: Path) -> None:
    ran = run("model", "show", related / "model")
    assert (ran.code, ran.err) == (0, "")
    assert (ran.row("kind"), ran.row("types")) == (["relation-classifier"], ["causes"])
    assert "scheme" not in ran.out
    f1 = json.loads((related / "scores.json").read_text())["relations"]["f1"]
    assert ran.row("relations_f1") == [f"{f1:.3f}"]
    # Three times 8 numbers and a bias for each of two classes.
    assert ran.row("output") == ["private", "50"]


def test_layer_groups_their_halves_and_sizes(run: Run, trained: Path) -> None:
    ran = run("model", "show", trained / "model")
    # Rows for 64 buckets, padding and the unknown, of 16 numbers each.
    assert ran.row("words") == ["shared", "1,056"]
    # Three words of 16 + 16 numbers into 16 filters, each with a bias.
    assert ran.row("word_cnn") == ["shared", "1,552"]
    # 16 numbers and a bias for each of O, B-ADE, I-ADE, B-Drug, I-Drug.
    assert ran.row("output") == ["private", "85"]
    # 5 by 5 transitions, and from the start and to the end.
    assert ran.row("crf") == ["private", "35"]
    sizes = [int(ran.row(name)[1].replace(",", "")) for name in ("words", "characters", "word_cnn", "output", "crf")]
    assert ran.row("all") == ["", f"{sum(sizes):,}"]


def test_the_table_counts_every_trainable_parameter_once() -> None:
    model = quick_tagger()
    table = groups_table(model)
    assert table.totals == (("all", "", sum(p.numel() for p in model.parameters() if p.requires_grad)),)
    assert [row[0] for row in table.rows] == list(model.groups)


def test_a_card_may_hold_any_notes_or_none(run: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "model", tmp_path / "model")
    card = json.loads((tmp_path / "model" / "wardround.json").read_text())
    (tmp_path / "model" / "wardround.json").write_text(json.dumps(card | {"notes": {"seeds": [0, 1], "sites": 4}}))
    ran = run("model", "show", tmp_path / "model")
    assert (ran.row("seeds"), ran.row("sites")) == (["[0, 1]"], ["4"])
    del card["notes"]
    (tmp_path / "model" / "wardround.json").write_text(json.dumps(card))
    assert run("model", "show", tmp_path / "model").code == 0


def test_a_folder_without_a_model_is_refused(run: Run, site: Path, tmp_path: Path) -> None:
    ran = run("model", "show", site)
    remedy = "`wardround train` writes a model to the folder model of its --out"
    missing = "folder 'ward' holds no model: there is no wardround.json in it"
    assert (ran.code, ran.err) == (2, f"wardround: {missing}; {remedy}\n")
    ran = run("model", "show", tmp_path / "nowhere")
    assert (ran.code, ran.err) == (2, f"wardround: there is no folder 'nowhere'; {remedy}\n")


def test_the_run_folder_around_a_model_is_accepted(run: Run, trained: Path) -> None:
    ran = run("model", "show", trained)
    assert (ran.code, ran.err) == (0, "")
    assert ran.row("kind") == run("model", "show", trained / "model").row("kind")


def test_a_folder_of_several_models_gets_the_folders_that_would_do(run: Run, trained: Path, tmp_path: Path) -> None:
    for site in ("east", "north", "south", "west", "young"):
        shutil.copytree(trained / "model", tmp_path / "study" / "sites" / site / "model")
    named = ", ".join(f"study/sites/{site}/model" for site in ("east", "north", "south", "west"))
    assert run("model", "show", tmp_path / "study").err.endswith(f"; try {named} …\n")


def test_every_preset_is_listed_with_its_layers(run: Run) -> None:
    ran = run("model", "presets")
    assert ran.code == 0
    assert ran.row("fedner") == ["cnn", "–", "200", "1 × 200", "–"]
    assert ran.row("elmoner") == ["cnn", "minilm", "200", "1 × 200", "–"]
    assert ran.row("s-lstm-crf") == ["none", "–", "–", "2 × 200", "–"]
    assert ran.row("gram-cnn") == ["cnn", "–", "200", "–", "–"]
    assert ran.row("transfer") == ["lstm", "–", "–", "1 × 100", "100"]
    assert all(ran.row(name) for name in PRESETS)


@pytest.mark.parametrize("words", [[], ["shwo"]])
def test_a_subcommand_is_needed(run: Run, words: list[str]) -> None:
    assert run("model", *words).code == 2


LAYER = {"layer": "words", "parameters": 1056, "taken": 528, "how": "resized", "why": "each of 2 buckets became one"}
NOTE = {"up_to": "word_cnn", "layers": [LAYER], "weights_sha256": "ab12", "frozen": ["words"]}


def test_a_table_shows_what_a_transfer_copied(run: Run, site: Path, trained: Path, tmp_path: Path) -> None:
    words = ("transfer", trained, "--data", site, "--format", "brat", "--out", tmp_path / "run", *QUICK)
    began = run(*words, "--up-to", "word_cnn", "--freeze", "words", "--training-option", "epochs=1")
    assert began.code == 0
    ran = run("model", "show", tmp_path / "run" / "model")
    assert (ran.code, ran.err) == (0, "")
    table = ran.out[ran.out.index("Began from another model, up to word_cnn") :]
    shown = Ran(0, table, "")
    assert shown.row("words") == ["1,056", "1,056", "copied", "yes", ""]
    assert shown.row("crf") == ["35", "0", "fresh", "no", "above word_cnn"]
    assert shown.row("all")[:2] == began.row("all")[:2]
    assert "weights_sha256" not in ran.out and "transfer " not in ran.out


@pytest.mark.parametrize(
    "note",
    [3, "text", {}, {**NOTE, "layers": 3}, {**NOTE, "layers": [{}]}, {**NOTE, "layers": [{**LAYER, "taken": "1"}]}],
)
def test_a_note_that_only_looks_like_one_is_shown_as_it_is(
    run: Run, trained: Path, tmp_path: Path, note: object
) -> None:
    assert saved_transfer_table(note) is None
    shutil.copytree(trained / "model", tmp_path / "model")
    card = json.loads((tmp_path / "model" / "wardround.json").read_text())
    (tmp_path / "model" / "wardround.json").write_text(json.dumps(card | {"notes": {"transfer": note}}))
    ran = run("model", "show", tmp_path / "model")
    assert ran.code == 0
    assert "transfer " in ran.out


def test_a_model_is_exported_shown_and_used(run: Run, trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="install wardround[onnx]")
    ran = run("model", "export", trained / "model", tmp_path / "exported", "--format", "onnx")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(str(tmp_path / "exported"))
    shown = run("model", "show", tmp_path / "exported")
    assert (shown.code, shown.row("kind"), shown.row("types")) == (0, ["onnx"], ["ADE, Drug"])
    assert "Layer groups" not in shown.out
    (tmp_path / "note.txt").write_text("Note 3. The patient took aspirin 80mg. It gave her rash.")
    words = (tmp_path / "note.txt", "--json")
    right, ours = (run("predict", model, *words) for model in (trained / "model", tmp_path / "exported"))
    found = [
        [(one["type"], one["ranges"]) for one in json.loads(ran.out)["documents"][0]["entities"]]
        for ran in (right, ours)
    ]
    assert found[0] == found[1]
    again = run("model", "export", trained / "model", tmp_path / "exported")
    assert (again.code, again.err) == (2, "wardround: exported exists; name a new folder\n")


def test_predictions_are_written_as_rows_of_omop(run: Run, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "4711.txt").write_text("Note 3. The patient took aspirin 80mg. It gave her rash.")
    words = ("--out", tmp_path / "note_nlp.csv", "--to", "omop", "--to-option", "date=2025-03-31")
    assert run("predict", trained / "model", tmp_path / "4711.txt", *words).code == 0
    lines = (tmp_path / "note_nlp.csv").read_text().splitlines()
    assert lines[0].startswith("note_nlp_id,note_id,")
    assert all(line.split(",")[1] == "4711" for line in lines[1:])
