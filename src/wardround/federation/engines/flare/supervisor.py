"""Run a command in the foreground and restart it when it dies."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

from wardround.federation.engines.flare.quiet import DONE, REFUSED
from wardround.process_hardening import forbid_core_dumps

__all__ = ["RestartPolicy", "exec_supervisor", "supervise"]

_FINAL = (DONE, REFUSED)
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class RestartPolicy:
    """How long to wait, in seconds."""

    first_pause: float = 0.2  # before the first restart; doubled for each further one
    longest_pause: float = 10.0
    healthy_seconds: float = 60.0  # a run of this length resets the pause
    kill_after: float = 10.0  # before a command that should end is killed


def supervise(command: Sequence[str], *, policy: RestartPolicy | None = None) -> int:
    """Run `command` and restart it until it exits with `DONE` or `REFUSED`; return the exit code.

    SIGINT and SIGTERM are passed on, and afterwards no process of the command's group is left. Must be called in the
    main thread, before other threads exist.
    """
    return _Supervisor(tuple(command), policy or RestartPolicy()).run()


def exec_supervisor(command: Sequence[str]) -> int:
    """Replace this process by a supervisor that has loaded nothing else; this does not return."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(sys.executable, (sys.executable, "-m", "wardround.federation.engines.flare.supervisor", *command))  # noqa: S606


class _Supervisor:
    def __init__(self, command: tuple[str, ...], policy: RestartPolicy) -> None:
        self._command = command
        self._policy = policy
        self._signal = 0
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        before = {number: signal.signal(number, self._interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
        pause = self._policy.first_pause
        try:
            while not self._signal:
                started = time.monotonic()
                code = self._run_once()
                if code in _FINAL and not self._signal:
                    return code
                if time.monotonic() - started >= self._policy.healthy_seconds:
                    pause = self._policy.first_pause
                self._stopping.wait(pause)
                pause = min(2 * pause, self._policy.longest_pause)
            return 128 + self._signal
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run_once(self) -> int:
        # Its own process group: a terminal's Ctrl-C reaches only this process and is passed on once.
        child = self._child = subprocess.Popen(  # noqa: S603 - our own command
            self._command, process_group=0, preexec_fn=_die_with_parent
        )
        try:
            if self._signal:  # it arrived while the child was starting
                child.send_signal(self._signal)
            return self._wait(child)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        while not self._signal:
            with suppress(subprocess.TimeoutExpired):
                return child.wait(0.2)
        with suppress(subprocess.TimeoutExpired):
            return child.wait(self._policy.kill_after)
        return -signal.SIGKILL

    def _interrupted(self, number: int, _: FrameType | None) -> None:
        self._signal = number
        self._stopping.set()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Make the child end if the supervisor is killed; runs in the child before it becomes the command."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


if __name__ == "__main__":
    forbid_core_dumps()
    sys.exit(supervise(sys.argv[1:]))
