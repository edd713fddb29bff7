from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.errors import UsageError
from wardround.sweeps.folders import ASKED, SUMMARY, held, lay_out, leave, summary_in, write_whole


def test_what_was_begun_stays_for_the_same_study_and_goes_for_another(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    lay_out(folder, "a = 1\n")
    (folder / "checkpoint.safetensors").touch()
    lay_out(folder, "a = 1\n")
    assert (folder / "checkpoint.safetensors").exists()
    lay_out(folder, "a = 2\n")
    assert [path.name for path in folder.iterdir()] == [ASKED]
    assert (folder / ASKED).read_text() == "a = 2\n"


@pytest.mark.parametrize("models", [True, False])
def test_what_is_kept_of_a_run(tmp_path: Path, models: bool) -> None:
    (tmp_path / "sites" / "harbour").mkdir(parents=True)
    (tmp_path / "checkpoint.safetensors").touch()
    (tmp_path / "scores.json").touch()
    assert summary_in(tmp_path) is None
    leave(tmp_path, {"seconds": 1.5}, models=models)
    assert summary_in(tmp_path) == {"seconds": 1.5} == json.loads((tmp_path / SUMMARY).read_text())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"scores.json", SUMMARY} | ({"sites", "checkpoint.safetensors"} if models else set())


def test_of_the_sites_the_counts_of_each_note_stay(tmp_path: Path) -> None:
    for site in ("harbour", "hillside"):
        (tmp_path / "sites" / site / "model").mkdir(parents=True)
        for name in ("model/note-counts.json", "ledger.jsonl", "note-counts.json"):
            (tmp_path / "sites" / site / name).write_text(site)
    leave(tmp_path, {"seconds": 1.5})
    left = {str(path.relative_to(tmp_path / "sites")): path for path in tmp_path.rglob("sites/*/*")}
    assert {name: path.read_text() for name, path in left.items()} == {
        "harbour/note-counts.json": "harbour",
        "hillside/note-counts.json": "hillside",
    }


@pytest.mark.parametrize("text", ["", '{"seconds": 1.', "[1.5]"])
def test_a_damaged_summary_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / SUMMARY).write_text(text)
    assert summary_in(tmp_path) is None


def test_a_summary_of_nobody_knows_which_study_does_not_stay(tmp_path: Path) -> None:
    leave(tmp_path, {"seconds": 1.5})
    (tmp_path / "mine").touch()
    lay_out(tmp_path, "a = 1\n")
    assert {path.name for path in tmp_path.iterdir()} == {ASKED, "mine"}


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_text("old")
    with pytest.raises(TypeError):
        write_whole(path, 3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    write_whole(path, "new")
    assert path.read_text() == "new" and [found.name for found in tmp_path.iterdir()] == ["index"]


def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    with held(tmp_path / "mine", wait=False):
        with pytest.raises(UsageError, match=r"^another process is at work in mine; wait for it"):
            with held(tmp_path / "mine", wait=False):
                pytest.fail("two at once")
    with held(tmp_path / "mine", wait=True):
        assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_what_can_be_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^(file|below) cannot be used as a folder: .*; name another one$"):
        with held(tmp_path / name, wait=False):
            pytest.fail("it is held")
