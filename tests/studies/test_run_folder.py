from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.studies.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "one")


def names(folder: RunFolder) -> list[str]:
    return [event["event"] for event in folder.events()]


def test_the_folder_is_made_and_may_be_there_already(folder: RunFolder) -> None:
    assert folder.path.is_dir()
    assert RunFolder(folder.path) == folder


def test_the_paths_of_a_run_folder(folder: RunFolder) -> None:
    assert folder.checkpoint == folder.path / "checkpoint.safetensors"
    assert folder.model == folder.path / "model"
    assert folder.report == folder.path / "report.html"


def test_events_come_back_in_order(folder: RunFolder) -> None:
    assert list(folder.events()) == []
    folder.log("started", {"sentences": 12})
    folder.log("epoch", {"epoch": 1, "loss": 0.5})
    first, second = folder.events()
    assert (first["event"], first["sentences"]) == ("started", 12)
    assert (second["event"], second["epoch"], second["loss"]) == ("epoch", 1, 0.5)
    assert first["time"] <= second["time"]


def test_events_are_appended_to_an_existing_log(folder: RunFolder) -> None:
    folder.log("started", {})
    RunFolder(folder.path).log("epoch", {})
    assert names(folder) == ["started", "epoch"]
    assert (folder.path / "events.jsonl").read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("torn", ['{"time": 1, "ev', '{"time": 1, "event": "x"', "\x00\x00\x00", "{"])
def test_a_torn_last_line_is_skipped(folder: RunFolder, torn: str) -> None:
    folder.log("started", {})
    with (folder.path / "events.jsonl").open("a") as stream:
        stream.write(torn)
    assert names(folder) == ["started"]
    folder.log("epoch", {})
    folder.log("finished", {})
    assert names(folder) == ["started", "epoch", "finished"]


def test_a_log_torn_in_its_first_line(folder: RunFolder) -> None:
    (folder.path / "events.jsonl").write_text('{"ti')
    assert names(folder) == []
    folder.log("started", {})
    assert names(folder) == ["started"]


def test_a_file_is_replaced_atomically(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_json("scores.json", {"f1": 0.5})
    folder.write_json("scores.json", {"f1": 0.75})
    assert json.loads((folder.path / "scores.json").read_text()) == {"f1": 0.75}
    with pytest.raises(TypeError):
        folder.write_json("scores.json", {"f1": object()})
    assert json.loads((folder.path / "scores.json").read_text()) == {"f1": 0.75}
    folder.write_json("scores.json", [])
    assert [path.name for path in folder.path.iterdir()] == ["scores.json"]
