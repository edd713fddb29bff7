from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.processes import eventually, is_running

from wardround.federation.engines.flare import supervisor
from wardround.federation.engines.flare.supervisor import RestartPolicy, supervise

QUICK = RestartPolicy(first_pause=0.01, longest_pause=0.04, healthy_seconds=60.0, kill_after=1.0)


def program(tmp_path: Path, body: str) -> list[str]:
    """Return a command that records each start in a file and then runs `body`, where `start` is its number."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        f"notes = {str(tmp_path / 'notes')!r}\n"
        "open(notes, 'a').write(f'{os.getpid()}\\n')\n"
        "start = len(open(notes).readlines())\n"
    )
    return [sys.executable, "-S", "-c", code + body]


def starts(tmp_path: Path) -> int:
    return len((tmp_path / "notes").read_text().splitlines())


def pauses(
    monkeypatch: pytest.MonkeyPatch, command: list[str], policy: RestartPolicy, lives: Iterable[float]
) -> list[float]:
    """Return the pauses of a supervisor after runs of a command that lasted these numbers of seconds."""
    waited: list[float] = []

    class Told(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return False

    clock = chain.from_iterable((0.0, seconds) for seconds in lives)
    monkeypatch.setattr(supervisor, "threading", SimpleNamespace(Event=Told))
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert supervise(command, policy=policy) == 0
    return waited


@pytest.mark.parametrize("code", [0, 2])
def test_done_and_refused_are_final(tmp_path: Path, code: int) -> None:
    assert supervise(program(tmp_path, f"sys.exit({code})"), policy=QUICK) == code
    assert starts(tmp_path) == 1


@pytest.mark.parametrize("death", ["sys.exit(1)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(143)"])
def test_every_other_exit_code_is_restarted(tmp_path: Path, death: str) -> None:
    body = f"if start == 4: sys.exit(0)\n{death}"
    assert supervise(program(tmp_path, body), policy=QUICK) == 0
    assert starts(tmp_path) == 4


def test_pauses_double_up_to_the_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = program(tmp_path, "sys.exit(0 if start == 5 else 1)")
    found = pauses(monkeypatch, command, RestartPolicy(first_pause=0.2, longest_pause=0.5), lives=[1.0] * 5)
    assert found == [0.2, 0.4, 0.5, 0.5]


def test_a_healthy_run_resets_the_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = program(tmp_path, "sys.exit(0 if start == 6 else 1)")
    policy = RestartPolicy(first_pause=0.2, longest_pause=30.0, healthy_seconds=60.0)
    assert pauses(monkeypatch, command, policy, lives=[1, 59, 1, 60, 1, 1]) == [0.2, 0.4, 0.8, 0.2, 0.4]


def test_the_supervisor_waits_for_the_pause(tmp_path: Path) -> None:
    started = time.monotonic()
    assert supervise(program(tmp_path, "sys.exit(0 if start == 2 else 1)"), policy=RestartPolicy(first_pause=0.3)) == 0
    assert time.monotonic() - started >= 0.3


def test_nothing_of_a_dead_command_is_left(tmp_path: Path) -> None:
    body = (
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(tmp_path / 'child')!r}, 'a').write(f'{{child.pid}}\\n')\n"
        "sys.exit(0 if start == 2 else 1)"
    )
    assert supervise(program(tmp_path, body), policy=QUICK) == 0
    children = [int(pid) for pid in (tmp_path / "child").read_text().split()]
    assert len(children) == 2
    assert eventually(lambda: not any(is_running(pid) for pid in children))


def supervised(command: list[str]) -> subprocess.Popen[bytes]:
    code = (
        "import sys\n"
        "from wardround.federation.engines.flare.supervisor import RestartPolicy, supervise\n"
        "sys.exit(supervise(sys.argv[1:], policy=RestartPolicy(kill_after=0.5)))"
    )
    return subprocess.Popen([sys.executable, "-c", code, *command])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_signal_ends_the_whole_tree(tmp_path: Path, number: signal.Signals, stubborn: bool) -> None:
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)\n" * stubborn
    body += (
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(f'{{child.pid}}\\n')\n"
        "time.sleep(60)"
    )
    process = supervised(program(tmp_path, body))
    try:
        assert eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"))
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    finally:
        process.kill()
        process.wait()
    pids = [int((tmp_path / "notes").read_text()), int((tmp_path / "child").read_text())]
    assert eventually(lambda: not any(is_running(pid) for pid in pids))
    assert starts(tmp_path) == 1


def test_a_signal_ends_a_pause(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from wardround.federation.engines.flare.supervisor import RestartPolicy, supervise\n"
        "sys.exit(supervise(sys.argv[1:], policy=RestartPolicy(first_pause=600.0)))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, *program(tmp_path, "sys.exit(1)")])
    try:
        assert eventually(lambda: (tmp_path / "notes").exists())
        time.sleep(0.5)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_a_killed_supervisor_ends_its_command(tmp_path: Path) -> None:
    process = supervised(program(tmp_path, "time.sleep(60)"))
    assert eventually(lambda: (tmp_path / "notes").exists() and (tmp_path / "notes").read_text().endswith("\n"))
    process.kill()
    process.wait()
    pid = int((tmp_path / "notes").read_text())
    assert eventually(lambda: not is_running(pid))


def test_signal_handlers_are_restored(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    supervise(program(tmp_path, ""), policy=QUICK)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
