from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.sweeps.test_index import finish, opened
from tests.sweeps.tiny_sweeps import sweep_of

from wardround.sweeps.index import Index
from wardround.sweeps.plan import Planned, planned
from wardround.sweeps.pool import LOG, Job, Pool
from wardround.sweeps.run import SweepRun


class Onlooker:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def on_start(self, run: Planned) -> None:
        self.told.append(("start", run.name))

    def on_end(self, run: Planned) -> None:
        self.told.append(("end", run.name))

    def on_failure(self, run: Planned, reason: str) -> None:
        self.told.append((f"failure: {reason}", run.name))

    def on_cut_off(self, run: Planned) -> None:
        self.told.append(("cut off", run.name))

    def on_event(self, text: str) -> None:
        self.told.append(("event", text))


def job_of(index: Index, run: Planned) -> Job:
    return Job(run.key, index.place(run), [])


def test_what_becomes_of_a_run(tmp_path: Path) -> None:
    index, onlooker = opened(tmp_path), Onlooker()
    work = SweepRun(index, onlooker)
    work._by_job = {run.key: run for run in index.runs}
    first, second, third, fourth = index.runs
    for run in index.runs:
        work.on_start(job_of(index, run))
        assert (index.place(run) / "asked.toml").read_text() == run.asked
    finish(index, first, 0.5)
    work.on_end(job_of(index, first), 0)
    (index.place(second) / LOG).write_text("round 1\nno entity to learn from\n")
    work.on_end(job_of(index, second), 1)
    work.on_cut_off(job_of(index, third), -15)
    finish(index, fourth, 0.25)
    work.on_cut_off(job_of(index, fourth), 0)  # it was done just then
    assert onlooker.told[4:] == [
        ("end", first.name),
        ("failure: no entity to learn from", second.name),
        ("cut off", third.name),
        ("end", fourth.name),
    ]
    assert work.failed == {second.name: "no entity to learn from"}
    assert work.left() == [second, third]


def test_a_run_that_is_killed_is_not_given_the_reason_of_the_time_before(tmp_path: Path) -> None:
    index = opened(tmp_path)
    run, work = index.runs[0], SweepRun(index, Onlooker())
    work._by_job = {run.key: run}
    work.on_start(job_of(index, run))
    (index.place(run) / LOG).write_text("no entity to learn from\n")
    killed = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    Pool(work, processes=1).work([Job(run.key, index.place(run), killed)])
    assert work.failed == {run.name: "it ended with status -9"}


def test_a_run_is_told_what_it_is_called(tmp_path: Path) -> None:
    index = opened(tmp_path)
    asked = [SweepRun(index, Onlooker(), "cpu", keep_models=keep)._job(index.runs[1]) for keep in (False, True)]
    assert [list(job.command[4:]) for job in asked] == [
        ["cpu", "--cell=alone"],
        ["cpu", "--cell=alone", "--keep-models"],
    ]


def test_where_all_is_finished_nothing_is_run_and_the_index_is_whole(tmp_path: Path) -> None:
    index = opened(tmp_path)
    for run in index.runs:
        finish(index, run, 0.5)
    onlooker = Onlooker()
    SweepRun(opened(tmp_path), onlooker).work(processes=2)
    assert onlooker.told == []
    assert len((tmp_path / "index.jsonl").read_text().splitlines()) == 4


def test_one_run_serves_all_rows_that_are_the_same_study(tmp_path: Path) -> None:
    sweep = sweep_of(grid={"a": {"one": {"model.lstm": 8}, "other": {"model.lstm": 8}}})
    index = Index(tmp_path, planned(sweep), sweep.figures)
    finish(index, index.runs[0], 0.5)
    assert index.add(index.runs[1])
    lines = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert [line["cell"] for line in lines] == ["one", "other"]
    assert lines[0]["run"] == lines[1]["run"]
