from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

FAKE = """
import json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
if folder.name.startswith("broken"):
    sys.exit(3)
if folder.name.startswith("slow"):
    time.sleep(60)
figures = {"seconds": 1.0, "dev_f1": 0.5, "rounds": 3, "best_round": 2, "device": "cpu", "options": sys.argv[3:]}
(folder / "summary.json").write_text(json.dumps(figures))
"""


@pytest.fixture(scope="module")
def runs() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT))
    yield import_module("papers.common.runs")
    sys.path.remove(str(ROOT))


@pytest.fixture
def fake(runs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fake.py").write_text(FAKE)
    monkeypatch.setattr(runs, "_ONE_RUN", tmp_path / "fake.py")


def finished(path: Path) -> list[str]:
    return [run["variation"] for run in json.loads(path.read_text())["runs"]]


def test_a_run_that_fails_or_takes_too_long_costs_the_others_nothing(
    runs: ModuleType, fake: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = runs.Results(tmp_path / "results.json", {"settings": {}})
    pool = runs.Pool(tmp_path / "out", results, processes=2, device="cpu", minutes=0.05)
    pool.work([runs.Run(name, 0, {"study": {"name": name}}, 1.0) for name in ("broken", "quick", "slow")])
    assert finished(tmp_path / "results.json") == ["quick"]
    assert pool.failed == ["broken-seed-0"]
    assert "cut off slow-seed-0" in capsys.readouterr().out
    assert (tmp_path / "out" / "quick-seed-0" / "asked.toml").read_text() == '[study]\nname = "quick"\n'


def test_a_run_of_several_processes_waits_for_as_many_places(runs: ModuleType, fake: None, tmp_path: Path) -> None:
    results = runs.Results(tmp_path / "results.json", {})
    pool = runs.Pool(tmp_path / "out", results, processes=3, device="cpu", minutes=0)
    four, two = (runs.Run(f"of-{n}", 0, {}, 1.0, workers=n, score_training=n == 2) for n in (4, 2))
    assert pool._fits(four), "what needs more places than there are runs alone"
    pool._start(two)
    assert not pool._fits(two) and pool._fits(runs.Run("of-1", 0, {}, 1.0))
    pool.work([four])
    assert {run["variation"]: run["options"] for run in results.runs} == {
        "of-2": ["--workers", "2", "--score-training"],
        "of-4": ["--workers", "4"],
    }


def test_the_longest_begin_first(
    runs: ModuleType, fake: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = runs.Pool(tmp_path / "out", runs.Results(tmp_path / "r.json", {}), processes=1, device="cpu", minutes=0)
    pool.work([runs.Run(name, 0, {}, guess) for name, guess in (("short", 1.0), ("long", 9.0))])
    said = capsys.readouterr().out
    assert said.index("long-seed-0") < said.index("short-seed-0")


def written(path: Path, head: dict[str, Any], *seeds: int) -> Path:
    found = [{"variation": "a", "seed": seed, "tuned": "", "device": "cpu"} for seed in seeds]
    path.write_text(json.dumps({**head, "runs": found}))
    return path


def test_files_of_one_measurement_are_joined(runs: ModuleType, tmp_path: Path) -> None:
    files = [written(tmp_path / "1.json", {"s": 1}, 0, 1), written(tmp_path / "2.json", {"s": 1}, 1, 2)]
    head, found = runs.joined(files)
    assert head == {"s": 1, "devices": ["cpu"]} and [run["seed"] for run in found] == [0, 1, 2]
    with pytest.raises(SystemExit, match="not one measurement"):
        runs.joined([*files, written(tmp_path / "3.json", {"s": 2}, 3)])


@pytest.mark.parametrize("answers", [True, False])
def test_the_service_that_shares_a_gpu_is_stopped_again(
    runs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    control, log = tmp_path / "control", tmp_path / "log"
    control.write_text(f'#!/bin/sh\nif [ "$1" = "-d" ]; then echo start >> {log}; else cat >> {log}; fi\n')
    control.chmod(0o755)
    monkeypatch.setattr(runs.shutil, "which", lambda name: str(control))
    monkeypatch.setattr(runs, "_PROBE", "" if answers else "raise SystemExit(1)")
    with runs.shared_gpu("cuda"):
        assert ("CUDA_MPS_PIPE_DIRECTORY" in os.environ) is answers
        assert log.read_text() == ("start\n" if answers else "start\nquit\n")
    assert log.read_text() == "start\nquit\n" and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
