from __future__ import annotations

import io
import json
import sys
from pathlib import Path

from rich.console import Console
from tests.sweeps.test_index import finish, opened
from tests.sweeps.tiny_sweeps import sweep_of

from wardround.sweeps.index import Index
from wardround.sweeps.plan import PlannedRun, plan_runs
from wardround.sweeps.pool import LOG, Job, Pool
from wardround.sweeps.sweep_run import SweepProgress, SweepRun


class RecordingWatcher:
    """Records the events it receives."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def on_start(self, run: PlannedRun) -> None:
        self.events.append(("start", run.name))

    def on_end(self, run: PlannedRun) -> None:
        self.events.append(("end", run.name))

    def on_failure(self, run: PlannedRun, reason: str) -> None:
        self.events.append((f"failure: {reason}", run.name))

    def on_stop(self, run: PlannedRun) -> None:
        self.events.append(("stop", run.name))

    def on_event(self, text: str) -> None:
        self.events.append(("event", text))


def job_of(index: Index, run: PlannedRun) -> Job:
    return Job(run.key, index.run_folder(run), [])


def test_end_failure_and_stop_of_runs(tmp_path: Path) -> None:
    index, watcher = opened(tmp_path), RecordingWatcher()
    work = SweepRun(index, watcher)
    work._by_job = {run.key: run for run in index.runs}
    first, second, third, fourth = index.runs
    for run in index.runs:
        work.on_start(job_of(index, run))
        assert (index.run_folder(run) / "asked.toml").read_text() == run.study_text
    finish(index, first, 0.5)
    work.on_end(job_of(index, first), 0)
    (index.run_folder(second) / LOG).write_text("round 1\nno entity to learn from\n")
    work.on_end(job_of(index, second), 1)
    work.on_stop(job_of(index, third), -15)
    finish(index, fourth, 0.25)
    work.on_stop(job_of(index, fourth), 0)  # it was done just then
    assert watcher.events[4:] == [
        ("end", first.name),
        ("failure: no entity to learn from", second.name),
        ("stop", third.name),
        ("end", fourth.name),
    ]
    assert work.failed == {second.name: "no entity to learn from"}
    assert work.unfinished() == [second, third]


def test_killed_run_does_not_report_an_earlier_reason(tmp_path: Path) -> None:
    index = opened(tmp_path)
    run, work = index.runs[0], SweepRun(index, RecordingWatcher())
    work._by_job = {run.key: run}
    work.on_start(job_of(index, run))
    (index.run_folder(run) / LOG).write_text("no entity to learn from\n")
    killed = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    Pool(work, processes=1).work([Job(run.key, index.run_folder(run), killed)])
    assert work.failed == {run.name: "it ended with status -9"}


def test_run_command_has_the_name_of_the_cell(tmp_path: Path) -> None:
    index = opened(tmp_path)
    asked = [SweepRun(index, RecordingWatcher(), "cpu", keep_models=keep)._job(index.runs[1]) for keep in (False, True)]
    assert [list(job.command[4:]) for job in asked] == [
        ["cpu", "--cell=alone"],
        ["cpu", "--cell=alone", "--keep-models"],
    ]


def test_finished_sweep_runs_nothing_and_writes_the_index(tmp_path: Path) -> None:
    index = opened(tmp_path)
    for run in index.runs:
        finish(index, run, 0.5)
    watcher = RecordingWatcher()
    SweepRun(opened(tmp_path), watcher).work(processes=2)
    assert watcher.events == []
    assert len((tmp_path / "index.jsonl").read_text().splitlines()) == 4


def test_one_run_serves_all_rows_with_the_same_study(tmp_path: Path) -> None:
    sweep = sweep_of(grid={"a": {"one": {"model.lstm": 8}, "other": {"model.lstm": 8}}})
    index = Index(tmp_path, plan_runs(sweep), sweep.figures)
    finish(index, index.runs[0], 0.5)
    assert index.add(index.runs[1])
    lines = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert [line["cell"] for line in lines] == ["one", "other"]
    assert lines[0]["run"] == lines[1]["run"]


def test_progress_prints_one_line_per_run(tmp_path: Path) -> None:
    index, said = opened(tmp_path), io.StringIO()
    first, second, third, _ = index.runs
    with SweepProgress(index, console=Console(file=said, width=200)) as progress:
        for run in (first, second, third):
            progress.on_start(run)
        finish(index, first, 0.5)
        index.add(first)
        progress.on_end(first)
        progress.on_failure(second, "no note")
        progress.on_stop(third)
        progress.on_event("the GPU is shared")
    assert said.getvalue().splitlines() == [
        "1/4  FedNER, seed 7: F1 50",
        "1/4  alone, seed 7: failed: no note",
        "1/4  FedNER, seed 8: stopped; the same command resumes it",
        "the GPU is shared",
    ]
