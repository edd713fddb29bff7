"""Every command that prints a result has `--json`; what it prints is one object with the figures of the text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.running import TEST, TRAIN, Run, train, write_site
from tests.studies.tiny_studies import text_of
from wardround.cli import main as entry
from wardround.models.presets import PRESETS
from wardround.parsing import parse_toml
from wardround.studies.catalogue import ALGORITHMS

# Commands that serve until they are stopped, and what a supervisor runs.
WITHOUT = {
    ("console",),
    ("coordinator", "start"),
    ("coordinator", "work"),
    ("site", "start"),
    ("site", "work"),
    ("keys", "serve"),
    ("serve",),
}


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in entry._COMMANDS:
        command = entry._imported(name)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield (name,), command
        else:
            yield from (((name, key), below) for key, below in inner.items())


def test_every_command_with_a_result_has_json() -> None:
    having = {path for path, command in commands() if "--json" in [o for p in command.params for o in p.opts]}
    every = {path for path, _ in commands()}
    assert every - having == WITHOUT
    assert len(every) > 35


@pytest.fixture
def read(run: Run) -> Any:
    """Run a command with `--json`; return its exit code and the object, which must be all of its standard output."""

    def called(*words: str | Path, code: int = 0) -> dict[str, Any]:
        ran = run(*words, "--json")
        assert ran.code == code, ran.err
        assert ran.out.count("\n") == 1
        found: dict[str, Any] = json.loads(ran.out)
        return found

    return called


def test_presets_and_algorithms(read: Any) -> None:
    assert read("model", "presets") == {"presets": json.loads(json.dumps({n: asdict(c) for n, c in PRESETS.items()}))}
    assert read("study", "algorithms") == {"algorithms": {name: kind.description for name, kind in ALGORITHMS.items()}}


def test_a_corpus(read: Any, run: Run, tmp_path: Path) -> None:
    site = write_site(tmp_path / "ward", train=TRAIN, test=TEST)
    checked = read("data", "check", site, "--format", "brat")
    assert (checked["errors"], checked["warnings"], checked["problems"]) == (0, 0, [])
    counts = checked["counts"]["train"]
    assert counts["documents"] == len(TRAIN)
    assert counts["mean_length"] == sum(len(note.text) for note in TRAIN) / len(TRAIN)
    assert counts["words"] is None  # brat has no words
    assert read("data", "stats", site, "--format", "brat") == {"counts": checked["counts"]}
    (site / "train" / "n0.ann").write_text("T1\tDrug 0 9999\tx\n")
    (site / "train" / "n0.txt").write_text("x")
    found = read("data", "check", site, "--format", "brat", code=1)
    assert found["errors"] == sum(problem["severity"] == "error" for problem in found["problems"]) > 0
    assert found["problems"][0].keys() == {"file", "line", "severity", "message"}


def test_converted_and_split_corpora(read: Any, tmp_path: Path) -> None:
    site = write_site(tmp_path / "ward", all=TRAIN) / "all"
    (part,) = read("data", "convert", site, tmp_path / "ward.jsonl", "--from", "brat", "--to", "jsonl")["parts"]
    assert part == {"path": str(tmp_path / "ward.jsonl"), "documents": len(TRAIN), "losses": {}, "dropped": {}}
    sizes = read("data", "split", site, tmp_path / "parts", "--format", "brat")["documents"]
    assert sizes == {"train": 24, "dev": 3, "test": 3}


def test_tag_sets_of_a_study_are_those_of_the_file(read: Any, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text_of())
    found = read("data", "tagsets", tmp_path / "s.toml", "--out", tmp_path / "table.json")
    assert found == json.loads((tmp_path / "table.json").read_text())


def test_a_study(read: Any, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text_of())
    assert read("study", "show", path) == parse_toml(run("study", "show", path).out)
    checked = read("study", "check", path)
    numbers = 66 * 8 + 8 * 3 * 8 + 8
    assert checked["shared"] == {"arrays": 3, "numbers": numbers, "bytes": 4 * numbers}
    assert checked["algorithm"] == "fedner"
    assert read("study", "new", tmp_path / "new.toml") == {"study": str(tmp_path / "new.toml")}


def test_a_training_prints_the_figures_of_its_scores_file(read: Any, site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    found = read(*train(site, folder, "--training-option", "epochs=1"))
    scores = json.loads((folder / "scores.json").read_text())
    assert found == {**scores, "model": str(folder / "model"), "report": str(folder / "report.html")}


def test_an_evaluation_has_the_figures_of_the_training(read: Any, site: Path, trained: Path) -> None:
    found = read("evaluate", trained / "model", site, "--format", "brat", "--device", "cpu", "--details")
    scores = json.loads((trained / "scores.json").read_text())
    for name in ("documents", "strict", "relaxed", "types"):
        assert found[name] == scores[name]
    assert found["muc"][0]["matching mode"] and found["confusion"]


def test_a_model(read: Any, trained: Path) -> None:
    found = read("model", "show", trained / "model")
    assert found["card"] == json.loads((trained / "model" / "wardround.json").read_text())
    assert found["groups"][-1]["group"] == "all"


def test_a_run_prints_the_scores_of_its_file(read: Any, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text_of(algorithm={"rounds": 2}))
    found = read("run", tmp_path / "s.toml", "--out", tmp_path / "run", "--device", "cpu")
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert {name: {k: v for k, v in site.items() if k != "model"} for name, site in found["sites"].items()} == (
        scores["sites"]
    )
    assert (found["rounds"], found["best_round"]) == (scores["rounds"], scores["best_round"])
    assert found["traffic"].keys() >= {"up", "down"}


def test_predictions_are_one_object_whatever_their_number(run: Run, trained: Path, tmp_path: Path) -> None:
    words = ("predict", trained / "model", tmp_path / "notes", "--device", "cpu")
    (tmp_path / "notes").mkdir()
    for number, note in enumerate(TEST[:2]):
        (tmp_path / "notes" / f"n{number}.txt").write_text(note.text)
    shown = json.loads(run(*words, "--json").out)["documents"]
    assert [note["text"] for note in shown] == [note.text for note in TEST[:2]]
    written = json.loads(run(*words, "--out", tmp_path / "found.jsonl", "--json").out)
    assert (written["out"], written["documents"]) == (str(tmp_path / "found.jsonl"), 2)
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert lines == shown
    assert sum(written["entities"].values()) == sum(len(note.get("entities", ())) for note in shown)


def test_a_redaction_counts_what_was_hidden(read: Any, run: Run, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Seen on 3 May 2021 and on 4 May 2021.")
    found = read("redact", tmp_path / "note.txt", "--out", tmp_path / "out")
    assert (found["notes"], list(found["hidden"].values())) == (1, [2])
    assert Path(found["audit"]).is_file()
    assert run("redact", "-", "--json").code == 2


def test_an_error_prints_no_object(run: Run, tmp_path: Path) -> None:
    ran = run("study", "show", tmp_path / "none.toml", "--json")
    assert (ran.code, ran.out) == (2, "")


def test_the_option_has_one_help_text(run: Run) -> None:
    assert isinstance(entry._assemble(), typer.Typer)
    texts = {p.help for _, command in commands() for p in command.params if "--json" in p.opts}
    assert texts == {"Print the result as one JSON object, with unrounded numbers."}
