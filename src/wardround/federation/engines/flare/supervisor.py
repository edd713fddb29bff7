"""A supervisor: runs a command in the foreground and starts it again when it dies."""

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

__all__ = ["Patience", "become", "supervise"]

_FINAL = (DONE, REFUSED)
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds."""

    first: float = 0.2  # before the first new start; doubled for each that follows
    longest: float = 10.0
    healthy: float = 60.0  # a run of this length makes up for those before
    ending: float = 10.0  # for a command that was told to end, before it is killed


def supervise(command: Sequence[str], *, patience: Patience | None = None) -> int:
    """Run `command` until it is done or refused, again and again; the exit code.

    SIGINT and SIGTERM are passed on, and then nothing of the command's process group is left. Must be called in the
    main thread, before there are others.
    """
    return _Supervisor(tuple(command), patience or Patience()).run()


def become(command: Sequence[str]) -> int:
    """Turn this process into a supervisor that has loaded nothing else; it does not come back."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(sys.executable, (sys.executable, "-m", "wardround.federation.engines.flare.supervisor", *command))  # noqa: S606


class _Supervisor:
    def __init__(self, command: tuple[str, ...], patience: Patience) -> None:
        self._command = command
        self._patience = patience
        self._signal = 0
        self._told = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        before = {number: signal.signal(number, self._interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            return self._run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> int:
        pause = self._patience.first
        while not self._signal:
            started = time.monotonic()
            code = self._run_once()
            if code in _FINAL and not self._signal:
                return code
            if time.monotonic() - started >= self._patience.healthy:
                pause = self._patience.first
            self._told.wait(pause)
            pause = min(2 * pause, self._patience.longest)
        return 128 + self._signal

    def _run_once(self) -> int:
        # A group of its own: a terminal's Ctrl-C comes here alone and is passed on once.
        child = self._child = subprocess.Popen(  # noqa: S603 - our own command
            self._command, process_group=0, preexec_fn=_die_with_parent
        )
        try:
            if self._signal:  # it came while the child was being started
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
            return child.wait(self._patience.ending)
        return -signal.SIGKILL

    def _interrupted(self, number: int, _: FrameType | None) -> None:
        self._signal = number
        self._told.set()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """In the child, before it becomes the command: a supervisor that is killed takes it along."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


if __name__ == "__main__":
    forbid_core_dumps()
    sys.exit(supervise(sys.argv[1:]))
