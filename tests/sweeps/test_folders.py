from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.errors import UsageError
from wardround.sweeps.folders import (
    REQUESTED_STUDY,
    SUMMARY,
    finish_folder,
    lock_folder,
    prepare_folder,
    read_summary,
    write_atomically,
)


def test_folder_is_kept_for_the_same_study_and_cleared_for_another(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    prepare_folder(folder, "a = 1\n")
    (folder / "checkpoint.safetensors").touch()
    prepare_folder(folder, "a = 1\n")
    assert (folder / "checkpoint.safetensors").exists()
    prepare_folder(folder, "a = 2\n")
    assert [path.name for path in folder.iterdir()] == [REQUESTED_STUDY]
    assert (folder / REQUESTED_STUDY).read_text() == "a = 2\n"


@pytest.mark.parametrize("models", [True, False])
def test_files_kept_after_a_run(tmp_path: Path, models: bool) -> None:
    (tmp_path / "sites" / "harbour").mkdir(parents=True)
    (tmp_path / "checkpoint.safetensors").touch()
    (tmp_path / "scores.json").touch()
    assert read_summary(tmp_path) is None
    finish_folder(tmp_path, {"seconds": 1.5}, keep_models=models)
    assert read_summary(tmp_path) == {"seconds": 1.5} == json.loads((tmp_path / SUMMARY).read_text())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"scores.json", SUMMARY} | ({"sites", "checkpoint.safetensors"} if models else set())


def test_counts_per_note_are_kept(tmp_path: Path) -> None:
    for site in ("harbour", "hillside"):
        (tmp_path / "sites" / site / "model").mkdir(parents=True)
        for name in ("model/note-counts.json", "ledger.jsonl", "note-counts.json"):
            (tmp_path / "sites" / site / name).write_text(site)
    finish_folder(tmp_path, {"seconds": 1.5})
    left = {str(path.relative_to(tmp_path / "sites")): path for path in tmp_path.rglob("sites/*/*")}
    assert {name: path.read_text() for name, path in left.items()} == {
        "harbour/note-counts.json": "harbour",
        "hillside/note-counts.json": "hillside",
    }


@pytest.mark.parametrize("text", ["", '{"seconds": 1.', "[1.5]"])
def test_damaged_summary_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / SUMMARY).write_text(text)
    assert read_summary(tmp_path) is None


def test_summary_without_a_study_is_removed(tmp_path: Path) -> None:
    finish_folder(tmp_path, {"seconds": 1.5})
    (tmp_path / "mine").touch()
    prepare_folder(tmp_path, "a = 1\n")
    assert {path.name for path in tmp_path.iterdir()} == {REQUESTED_STUDY, "mine"}


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_text("old")
    with pytest.raises(TypeError):
        write_atomically(path, 3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    write_atomically(path, "new")
    assert path.read_text() == "new" and [found.name for found in tmp_path.iterdir()] == ["index"]


def test_folder_can_be_locked_once(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "mine", wait=False):
        with pytest.raises(UsageError, match=r"^another process is working in mine; wait until it ends"):
            with lock_folder(tmp_path / "mine", wait=False):
                pytest.fail("two at once")
    with lock_folder(tmp_path / "mine", wait=True):
        assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_file_in_place_of_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^(file|below) cannot be used as a folder: .*; choose another one$"):
        with lock_folder(tmp_path / name, wait=False):
            pytest.fail("it is held")
