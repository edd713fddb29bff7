from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.processes import eventually, is_running

from wardround.errors import MessageError
from wardround.federation.message import Message
from wardround.federation.worker_process import WorkerProcess, round_of

TOY = Path(__file__).with_name("toy_worker.py")


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary"


@pytest.fixture
def worker(diary: Path) -> Iterator[WorkerProcess]:
    process = WorkerProcess([sys.executable, str(TOY), str(diary)], errors=subprocess.DEVNULL)
    yield process
    process.kill()
    process.close()


def lines(diary: Path) -> list[str]:
    return [line.split()[0] for line in diary.read_text().splitlines()]


def pid_of(worker: WorkerProcess) -> int:
    return worker.answer("add", Message()).value("pid", int)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended and was waited for."""
    return not Path(f"/proc/{pid}").exists()


def once_it_sleeps(diary: Path, call: Callable[[], None]) -> None:
    """Call it from another thread during the next answer."""

    def watch() -> None:
        if eventually(lambda: "asleep" in lines(diary)):
            call()

    threading.Thread(target=watch, daemon=True).start()


def code_of(worker: WorkerProcess, step: str) -> str:
    with pytest.raises(MessageError) as caught:
        worker.answer(step, Message({"seconds": 60.0}))
    assert "Marker" not in str(caught.value)
    return caught.value.code


def test_an_answer_comes_back_and_the_worker_stays(worker: WorkerProcess, diary: Path) -> None:
    answer = worker.answer("add", Message({"round": 7}, {"w": np.array([1.0, 2.5], np.float32)}))
    assert answer.arrays["w"].tolist() == [2.0, 3.5]
    assert answer.value("round", int) == 7
    assert pid_of(worker) == answer.value("pid", int)
    assert lines(diary) == ["opened"]
    worker.close()
    assert lines(diary) == ["opened", "closed"]
    assert is_gone(answer.value("pid", int))


def test_nothing_starts_before_it_is_asked(worker: WorkerProcess, diary: Path) -> None:
    worker.close()
    worker.kill()
    assert not diary.exists()


def test_a_large_message(worker: WorkerProcess) -> None:
    big = np.arange(5_000_000, dtype=np.float32)
    assert np.array_equal(worker.answer("add", Message({}, {"w": big})).arrays["w"], big + 1)


def test_errors_cross_as_codes_and_the_worker_lives_on(worker: WorkerProcess) -> None:
    pid = pid_of(worker)
    assert code_of(worker, "fail") == "ValueError"
    assert code_of(worker, "refuse") == "shapes"
    assert code_of(worker, "talk") == "unknown"
    assert pid_of(worker) == pid


def test_prints_do_not_disturb_the_frames(worker: WorkerProcess) -> None:
    pid = pid_of(worker)
    assert worker.answer("shout", Message()).value("pid", int) == pid


@pytest.mark.parametrize("step", ["die", "interrupt"])
def test_a_worker_that_dies_is_started_again(worker: WorkerProcess, diary: Path, step: str) -> None:
    pid = pid_of(worker)
    assert code_of(worker, step) == "worker-died"
    assert is_gone(pid)
    assert pid_of(worker) != pid
    assert lines(diary).count("opened") == 2


def test_a_worker_killed_while_idle_is_started_again(worker: WorkerProcess) -> None:
    pid = pid_of(worker)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not is_running(pid))
    assert pid_of(worker) != pid
    assert is_gone(pid)


def test_kill_ends_an_answer_that_takes_too_long(worker: WorkerProcess, diary: Path) -> None:
    pid_of(worker)
    once_it_sleeps(diary, worker.kill)
    assert code_of(worker, "sleep") == "worker-died"


def test_a_command_that_is_not_a_worker() -> None:
    for command in (["true"], ["echo", "x" * 300], [sys.executable, "-c", "print('{}')"]):
        worker = WorkerProcess(command, errors=subprocess.DEVNULL)
        assert code_of(worker, "add") == "worker-died"


def test_a_worker_that_cannot_be_opened_is_an_error_each_time() -> None:
    program = "from wardround.federation.worker_process import serve_worker\nserve_worker(lambda: [][0])"
    worker = WorkerProcess([sys.executable, "-c", program], errors=subprocess.DEVNULL)
    try:
        assert [code_of(worker, "add"), code_of(worker, "add")] == ["IndexError", "IndexError"]
    finally:
        worker.close()


def test_a_worker_does_not_outlive_its_parent(diary: Path) -> None:
    program = (
        "import sys\n"
        "from wardround.federation.message import Message\n"
        "from wardround.federation.worker_process import WorkerProcess\n"
        "worker = WorkerProcess(sys.argv[1:])\n"
        "print(worker.answer('add', Message()).value('pid', int), flush=True)\n"
        "worker.answer('sleep', Message({'seconds': 60.0}))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, sys.executable, str(TOY), str(diary)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not is_running(pid), 30.0)


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (True, 0), ("3", 0), (None, 0), (1.5, 0)])
def test_the_round_of_a_message(value: int, expected: int) -> None:
    assert round_of(Message({"round": value})) == expected
    assert round_of(Message()) == 0


def test_close_does_not_wait_for_an_answer(worker: WorkerProcess, diary: Path) -> None:
    pid = pid_of(worker)
    once_it_sleeps(diary, worker.close)
    assert code_of(worker, "sleep") == "worker-died"
    assert is_gone(pid)
