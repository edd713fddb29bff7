from __future__ import annotations

import json
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
    measurement = runs.Measurement(tmp_path / "out", results, device="cpu")
    asked = [runs.Run(name, 0, {"study": {"name": name}}, 1.0) for name in ("broken", "quick", "slow")]
    measurement.work(asked, processes=2, minutes=0.15)
    assert finished(tmp_path / "results.json") == ["quick"]
    assert measurement.failed == ["broken-seed-0"]
    assert "cut off slow-seed-0" in capsys.readouterr().out
    assert (tmp_path / "out" / "quick-seed-0" / "asked.toml").read_text() == '[study]\nname = "quick"\n'


def test_a_run_starts_again_if_its_study_changed(runs: ModuleType, fake: None, tmp_path: Path) -> None:
    results = runs.Results(tmp_path / "results.json", {})
    left = tmp_path / "out" / "quick-seed-0" / "checkpoint"
    for name, stays in (("one", False), ("one", True), ("two", False)):
        runs.Measurement(tmp_path / "out", results, device="cpu").work(
            [runs.Run("quick", 0, {"study": {"name": name}}, 1.0)], processes=1
        )
        assert left.exists() is stays
        left.touch()


def test_options_of_a_run_with_several_processes(runs: ModuleType, fake: None, tmp_path: Path) -> None:
    results = runs.Results(tmp_path / "results.json", {})
    several = [runs.Run(f"of-{n}", 0, {}, 1.0, workers=n, own_options=["--score-training"] * (n == 2)) for n in (4, 2)]
    assert [run.slots for run in (*several, runs.Run("of-0", 0, {}, 1.0))] == [4, 2, 1]
    runs.Measurement(tmp_path / "out", results, device="cpu").work(several, processes=3)
    assert {run["variation"]: run["options"] for run in results.runs} == {
        "of-2": ["--workers", "2", "--score-training"],
        "of-4": ["--workers", "4"],
    }


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
