from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import eventually, is_running, kill

from wardround.sweeps.pool import LOG, Job, Pool

SLEEP = "import time; time.sleep(60)"


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: dict[str, int] = {}
        self.cut_off: dict[str, int] = {}

    def on_start(self, job: Job) -> None:
        self.started.append(job.name)

    def on_end(self, job: Job, status: int) -> None:
        self.ended[job.name] = status

    def on_cut_off(self, job: Job, status: int) -> None:
        self.cut_off[job.name] = status


def job(folder: Path, name: str, code: str = "", *, guess: float = 0.0, slots: int = 1) -> Job:
    return Job(name, folder / name, [sys.executable, "-c", code], guess, slots)


def test_one_that_fails_or_takes_too_long_costs_the_others_nothing(tmp_path: Path) -> None:
    told = Told()
    pool = Pool(told, processes=3, minutes=0.15)
    codes = {"broken": "import sys; sys.exit('no')", "quick": "print('yes')", "slow": SLEEP}
    pool.work([job(tmp_path, name, code) for name, code in codes.items()])
    assert told.ended == {"broken": 1, "quick": 0}
    assert told.cut_off == {"slow": -15}
    assert [(tmp_path / name / LOG).read_text() for name in ("broken", "quick")] == ["no\n", "yes\n"]


def test_what_is_started_again_begins_its_log_anew(tmp_path: Path) -> None:
    for said in ("no, and why", "yes"):
        Pool(Told(), processes=1).work([job(tmp_path, "a", f"print({said!r})")])
    assert (tmp_path / "a" / LOG).read_text() == "yes\n"


@pytest.mark.parametrize(
    ("guesses", "order"),
    [((1.0, 9.0, 5.0), ["second", "third", "first"]), ((0.0, 0.0, 0.0), ["first", "second", "third"])],
)
def test_the_longest_begin_first_and_equal_ones_as_they_stand(
    tmp_path: Path, guesses: tuple[float, ...], order: list[str]
) -> None:
    told = Told()
    names = ("first", "second", "third")
    jobs = [job(tmp_path, name, guess=guess) for name, guess in zip(names, guesses, strict=True)]
    Pool(told, processes=1).work(jobs)
    assert told.started == order


def test_who_needs_more_cores_than_are_free_waits_and_the_next_takes_its_place(tmp_path: Path) -> None:
    told = Told()
    jobs = [job(tmp_path, name, guess=-number, slots=slots) for number, (name, slots) in enumerate(SLOTS)]
    Pool(told, processes=3).work(jobs)
    # Two cores are busy, so three must wait; one fits beside two. Four, more than there are, run alone.
    assert told.started == ["two", "one", "three", "four"]
    assert told.ended == dict.fromkeys(told.started, 0)


SLOTS = (("two", 2), ("three", 3), ("one", 1), ("four", 4))


def test_every_process_has_one_thread_and_what_it_is_given(tmp_path: Path) -> None:
    code = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['HF_HUB_OFFLINE'], os.environ['MINE'])"
    Pool(Told(), processes=1, environment={"MINE": "given"}).work([job(tmp_path, "a", code)])
    assert (tmp_path / "a" / LOG).read_text() == "1 1 given\n"


WORKING = """
import sys
from pathlib import Path
from wardround.sweeps.pool import Job, Pool
from tests.sweeps.test_pool import Told
child = "import os, time, sys; from wardround.sweeps.lifeline import end_with_parent; end_with_parent(); " \\
    "print(os.getpid(), flush=True); time.sleep(60)"
Pool(Told(), processes=1).work([Job("a", Path(sys.argv[1]), [sys.executable, "-c", child])])
"""


def test_where_the_pool_is_killed_its_processes_end(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    pool = subprocess.Popen([sys.executable, "-c", WORKING, str(tmp_path)], env=environment)
    try:
        log = tmp_path / LOG
        assert eventually(lambda: log.is_file() and log.read_text().endswith("\n"))
        child = int(log.read_text())
        assert is_running(child)
    finally:
        kill(pool.pid)
        pool.wait()
    assert eventually(lambda: not is_running(child))
