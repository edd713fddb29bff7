"""What protects the work of a run: one process per folder, room on the disk, and an orderly end after Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from wardround.errors import TrainingError, UsageError
from wardround.parsing import parse_json
from wardround.text.plain_text import size_text

__all__ = ["StopRequest", "check_space", "process_in", "run_lock", "stop_on_signals"]

_LOCK = ".lock"
_DEFAULT_HANDLERS = (signal.SIG_DFL, signal.default_int_handler)


# One process per folder.


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; raise `UsageError` with the name of the process that holds it.

    The kernel releases the lock when the process ends, however it ends. On a file system without locks there is none.
    """
    path = folder / _LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(descriptor, path):
                break
        except BlockingIOError:
            holder = _holder(descriptor) or "another process"
            os.close(descriptor)
            raise UsageError(
                f"the folder {folder.name} is in use by {holder}; wait until it ends, or name another folder"
            ) from None
        except OSError:  # a file system without locks: nothing can be known about other processes
            os.close(descriptor)
            yield
            return
        os.close(descriptor)  # the process that held it removed the file in between
    try:
        started = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        note = {"process": os.getpid(), "host": socket.gethostname(), "started": started}
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def process_in(folder: Path) -> str:
    """Return a description of the process that works in a folder; empty if there is none."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor) or "another process"
    finally:
        os.close(descriptor)
    return ""


def _is_same(descriptor: int, path: Path) -> bool:
    """Whether the locked file is still the one in the folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    try:
        note = parse_json(os.pread(descriptor, 4096, 0))
        return f"process {int(note['process'])} on {str(note['host'])[:80]}, started {str(note['started'])[:40]}"
    except (OSError, ValueError, TypeError, KeyError):
        return ""


# Room on the disk.


def check_space(folder: Path, needed: int) -> None:
    """Raise `TrainingError` if the disk of a folder has less room than the results need at least."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise TrainingError(
            f"the disk of {folder.name} has {size_text(free)} left, and the run needs at least {size_text(needed)}; "
            "free some space, or name a folder on another disk"
        )


# An orderly end.


class StopRequest:
    """Whether the user asked the run to stop; the signal that did so, or 0."""

    def __init__(self) -> None:
        """Start without a request."""
        self.signal = 0

    def __bool__(self) -> bool:
        return bool(self.signal)

    def stop(self) -> None:
        """End the run as the signal would have: exit code 130 after Ctrl-C, 143 after SIGTERM."""
        if self.signal == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)
        raise KeyboardInterrupt


@contextmanager
def stop_on_signals(say: Callable[[str], None]) -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM instead of ending at once, so that the caller can finish and save; a second one ends.

    Signals that the caller handles in a way of its own keep their effect. So do all signals outside the main thread,
    where Python allows no handlers.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    present = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in present.items() if handler in _DEFAULT_HANDLERS}

    def note(number: int, _: FrameType | None) -> None:
        if request:
            request.signal = number
            request.stop()
        request.signal = number
        say("stopping after this round, which is saved; press Ctrl-C again to stop at once")

    try:
        for number in before:
            signal.signal(number, note)
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
