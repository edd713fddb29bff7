from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import eventually, is_running, kill

from wardround.sweeps import pool
from wardround.sweeps.pool import LOG, Job, Pool, end_with_parent, lifeline, shared_gpu

SLEEP = "import time; time.sleep(60)"


class RecordingListener:
    """Records the events it receives."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: dict[str, int] = {}
        self.stopped: dict[str, int] = {}

    def on_start(self, job: Job) -> None:
        self.started.append(job.name)

    def on_end(self, job: Job, status: int) -> None:
        self.ended[job.name] = status

    def on_stop(self, job: Job, status: int) -> None:
        self.stopped[job.name] = status


def job(folder: Path, name: str, code: str = "", *, guess: float = 0.0, slots: int = 1) -> Job:
    return Job(name, folder / name, [sys.executable, "-c", code], guess, slots)


def test_failed_and_slow_jobs_do_not_affect_others(tmp_path: Path) -> None:
    listener = RecordingListener()
    pool = Pool(listener, processes=3, minutes=0.15)
    codes = {"broken": "import sys; sys.exit('no')", "quick": "print('yes')", "slow": SLEEP}
    pool.work([job(tmp_path, name, code) for name, code in codes.items()])
    assert listener.ended == {"broken": 1, "quick": 0}
    assert listener.stopped == {"slow": -15}
    assert [(tmp_path / name / LOG).read_text() for name in ("broken", "quick")] == ["no\n", "yes\n"]


def test_restarted_job_overwrites_its_log(tmp_path: Path) -> None:
    for said in ("no, and why", "yes"):
        Pool(RecordingListener(), processes=1).work([job(tmp_path, "a", f"print({said!r})")])
    assert (tmp_path / "a" / LOG).read_text() == "yes\n"


@pytest.mark.parametrize(
    ("guesses", "order"),
    [((1.0, 9.0, 5.0), ["second", "third", "first"]), ((0.0, 0.0, 0.0), ["first", "second", "third"])],
)
def test_longest_jobs_start_first_and_equal_ones_in_order(
    tmp_path: Path, guesses: tuple[float, ...], order: list[str]
) -> None:
    listener = RecordingListener()
    names = ("first", "second", "third")
    jobs = [job(tmp_path, name, guess=guess) for name, guess in zip(names, guesses, strict=True)]
    Pool(listener, processes=1).work(jobs)
    assert listener.started == order


def test_job_that_does_not_fit_waits_and_the_next_starts(tmp_path: Path) -> None:
    listener = RecordingListener()
    jobs = [job(tmp_path, name, guess=-number, slots=slots) for number, (name, slots) in enumerate(SLOTS)]
    Pool(listener, processes=3).work(jobs)
    # Two cores are busy, so three must wait; one fits beside two. Four, more than there are, run alone.
    assert listener.started == ["two", "one", "three", "four"]
    assert listener.ended == dict.fromkeys(listener.started, 0)


SLOTS = (("two", 2), ("three", 3), ("one", 1), ("four", 4))


def test_job_environment_has_one_thread_and_the_given_variables(tmp_path: Path) -> None:
    code = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['HF_HUB_OFFLINE'], os.environ['MINE'])"
    Pool(RecordingListener(), processes=1, environment={"MINE": "given"}).work([job(tmp_path, "a", code)])
    assert (tmp_path / "a" / LOG).read_text() == "1 1 given\n"


WORKING = """
import sys
from pathlib import Path
from wardround.sweeps.pool import Job, Pool
from tests.sweeps.test_pool import RecordingListener
child = "import os, time, sys; from wardround.sweeps.pool import end_with_parent; end_with_parent(); " \\
    "print(os.getpid(), flush=True); time.sleep(60)"
Pool(RecordingListener(), processes=1).work([Job("a", Path(sys.argv[1]), [sys.executable, "-c", child])])
"""


def test_processes_end_when_the_pool_is_killed(tmp_path: Path) -> None:
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


CHILD = "from wardround.sweeps.pool import end_with_parent; end_with_parent(); import time; time.sleep(60)"


def test_process_ends_when_the_lifeline_closes() -> None:
    with lifeline() as line:
        environment = os.environ | line.environment
        child = subprocess.Popen([sys.executable, "-c", CHILD], env=environment, pass_fds=(line.descriptor,))
        assert child.poll() is None
    assert child.wait(60) == 75


def test_without_a_lifeline_nothing_happens() -> None:
    assert "WARDROUND_LIFELINE" not in os.environ
    end_with_parent()


@pytest.mark.parametrize("answers", [True, False])
def test_gpu_service_is_stopped_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    control, log, said = tmp_path / "control", tmp_path / "log", list[str]()
    control.write_text(f'#!/bin/sh\nif [ "$1" = "-d" ]; then echo start >> {log}; else cat >> {log}; fi\n')
    control.chmod(0o755)
    monkeypatch.setattr(pool.shutil, "which", lambda name: str(control))
    monkeypatch.setattr(pool, "_GPU_PROBE", "" if answers else "raise SystemExit(1)")
    with shared_gpu("cuda", say=said.append):
        assert ("CUDA_MPS_PIPE_DIRECTORY" in os.environ) is answers
        assert log.read_text() == ("start\n" if answers else "start\nquit\n")
    assert log.read_text() == "start\nquit\n" and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert said == ["multi-process service: " + ("used" if answers else "does not respond; not used")]


def test_cpu_needs_no_gpu_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.shutil, "which", lambda name: pytest.fail("nobody is asked"))
    with shared_gpu("cpu", say=pytest.fail):
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def test_running_gpu_service_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/pipe")
    monkeypatch.setattr(pool.shutil, "which", lambda name: pytest.fail("none is started"))
    with shared_gpu("cuda", say=pytest.fail):
        assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/run/pipe"
    assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/run/pipe"
