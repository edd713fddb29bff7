"""Processes of a test: started, looked at, killed, and none of them left afterwards."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest


def free_port() -> int:
    """A port that nobody listens on.

    It is below those that the system gives to whoever calls somebody else, so that it is still free when it is used,
    and drawn, so that tests side by side do not get the same.
    """
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(10_000, 32_768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def descendants(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


def is_running(pid: int) -> bool:
    """Whether a process is there, or any of its threads; one that is ours is gone when it can be waited for."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None
    except ChildProcessError:
        return _is_listed(pid)


def _is_listed(pid: int) -> bool:
    """Of somebody else's process: a leader that has ended stays a zombie while it has threads."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def open_files() -> int:
    """How many files this process has open, once those are closed that nobody uses any more."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def listening(pid: int) -> list[int]:
    """The TCP ports that a process listens on."""
    inodes = set()
    if not os.access(f"/proc/{pid}/fd", os.R_OK):
        pytest.skip("a process that handles notes shows its open files to root alone")
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            inodes.add(os.readlink(link))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(ports)


def eventually(holds: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Whether it holds before so many seconds are over; they are many, for only what is broken uses them up."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def kill(pid: int) -> None:
    """With a signal that cannot be caught, where the process still is."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_all_below(pid: int) -> None:
    """A process and all below it, the lowest first."""
    for each in reversed(descendants(pid)):
        kill(each)


def processes_of(folder: Path) -> dict[int, list[str]]:
    """The words of every running process that names something in a folder."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        pid = int(path.parent.name)
        if pid != os.getpid() and any(f"{folder}/" in word for word in words) and is_running(pid):
            found[pid] = words
    return found


class Command:
    """`wardround`, or another module, in a process of its own, which writes what it says to a file."""

    def __init__(
        self,
        output: Path,
        *words: str | Path,
        environment: Mapping[str, str] | None = None,
        module: str = "wardround.cli.main",
    ) -> None:
        self.output = output
        with output.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            )

    @property
    def said(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def wait(self, seconds: float = 180.0) -> int:
        """Its exit code; what it said, where it does not end in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {seconds} seconds: {self.said}") from None

    def end(self) -> None:
        """Leave nothing of it."""
        kill_all_below(self.process.pid)
        self.process.wait()
