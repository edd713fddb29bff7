from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sweeps.tiny_sweeps import REPORT, sweep_of

from wardround.errors import UsageError
from wardround.sweeps.folders import REQUESTED_STUDY, finish_folder, prepare_folder
from wardround.sweeps.index import INDEX, Index
from wardround.sweeps.plan import PlannedRun, plan_runs
from wardround.sweeps.sweep_file import Sweep


def finish(index: Index, run: PlannedRun, f1: float, *, asked: str = "") -> None:
    """What a run leaves that ended well."""
    folder = index.run_folder(run)
    prepare_folder(folder, asked or run.study_text)
    sites = {name: {"strict": {"f1": f1}} for name in run.study.sites}
    scores = {"rounds": 3, "best_round": 2, "traffic": {"up": 10}, "sites": sites}
    (folder / "scores.json").write_text(json.dumps(scores))
    finish_folder(folder, {"seconds": 1.0})


def opened(folder: Path, sweep: Sweep | None = None) -> Index:
    sweep = sweep or sweep_of()
    return Index(folder, plan_runs(sweep), sweep.figures)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / INDEX).read_text().splitlines()]


def test_lines_follow_the_order_of_the_plan(tmp_path: Path) -> None:
    index = opened(tmp_path)
    for number in (2, 0):
        finish(index, index.runs[number], number / 4)
        assert index.add(index.runs[number])
    first, third = index.runs[0], index.runs[2]
    assert lines(tmp_path) == [
        {
            **{"cell": "FedNER", "seed": 7, "run": first.key, "figures": {"sites.*.strict.f1": 0.0}},
            **{"rounds": 3, "best_round": 2},
        },
        {
            **{"cell": "FedNER", "seed": 8, "run": third.key, "figures": {"sites.*.strict.f1": 0.5}},
            **{"rounds": 3, "best_round": 2},
        },
    ]
    assert [index.has(run) for run in index.runs] == [True, False, True, False]
    assert [index.figure(run, index.figures[0]) for run in index.runs] == [0.0, None, 50.0, None]


def test_a_run_without_a_summary_is_not_finished(tmp_path: Path) -> None:
    index = opened(tmp_path)
    prepare_folder(index.run_folder(index.runs[0]), index.runs[0].study_text)
    assert not index.add(index.runs[0]) and not index.has(index.runs[0])


def test_run_that_finished_without_the_index_is_found(tmp_path: Path) -> None:
    index = opened(tmp_path)
    finish(index, index.runs[1], 0.5)
    assert [opened(tmp_path).has(run) for run in index.runs] == [False, True, False, False]


def test_index_alone_is_enough_if_it_has_the_requested_figures(tmp_path: Path) -> None:
    index = opened(tmp_path / "with")
    finish(index, index.runs[0], 0.5)
    index.add(index.runs[0])
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / INDEX).write_bytes((tmp_path / "with" / INDEX).read_bytes())
    assert opened(tmp_path / "without").lines == index.lines
    more = sweep_of(report={**REPORT, "rounds": "rounds"})
    assert not opened(tmp_path / "without", more).lines
    assert opened(tmp_path / "with", more).lines[index.runs[0].key]["figures"]["rounds"] == 3.0


def test_added_setting_keeps_a_run_valid_and_changed_default_does_not(tmp_path: Path) -> None:
    index = opened(tmp_path)
    run = index.runs[0]
    older = run.study_text.replace("patience = 0\n", "")
    assert older != run.study_text
    finish(index, run, 0.5, asked=older)
    assert opened(tmp_path).has(run)
    finish(index, run, 0.5, asked=run.study_text.replace("patience = 0\n", "patience = 3\n"))
    assert not opened(tmp_path).has(run)


def test_line_does_not_replace_a_folder_with_other_settings(tmp_path: Path) -> None:
    index = opened(tmp_path)
    run = index.runs[0]
    finish(index, run, 0.5)
    assert index.add(run) and opened(tmp_path).has(run)
    (index.run_folder(run) / REQUESTED_STUDY).write_text(run.study_text.replace("patience = 0\n", "patience = 3\n"))
    assert len(lines(tmp_path)) == 1
    assert not opened(tmp_path).has(run)


@pytest.mark.parametrize("name", ["asked.toml", "scores.json", "summary.json"])
@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff"])
def test_a_run_with_a_damaged_file_is_not_finished(tmp_path: Path, name: str, damage: bytes) -> None:
    index = opened(tmp_path)
    run = index.runs[0]
    finish(index, run, 0.5)
    assert index.add(run)
    (index.run_folder(run) / name).write_bytes(damage)
    assert not opened(tmp_path).has(run)


def test_a_run_without_scores_is_not_finished(tmp_path: Path) -> None:
    index = opened(tmp_path)
    finish(index, index.runs[0], 0.5)
    (index.run_folder(index.runs[0]) / "scores.json").unlink()
    assert not index.add(index.runs[0])


@pytest.mark.parametrize("torn", [b'{"cell": "FedN', b"[]", b'{"run": "5f2c"}', b'{"cell": "\xff"}'])
def test_torn_line_of_the_index_is_skipped(tmp_path: Path, torn: bytes) -> None:
    index = opened(tmp_path / "with")
    for run in index.runs[:2]:
        finish(index, run, 0.5)
        index.add(run)
    first, _ = (tmp_path / "with" / INDEX).read_bytes().splitlines()
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / INDEX).write_bytes(first + b"\n" + torn)
    assert list(opened(tmp_path / "without").lines) == [index.runs[0].key]


def test_file_in_place_of_the_sweep_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(UsageError, match=r"^out is a file; name a folder instead"):
        opened(tmp_path / "out")
