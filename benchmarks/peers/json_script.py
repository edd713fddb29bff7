"""What the scripts of this folder share; it imports nothing but the standard library, since peers run it too."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["answer", "free_port", "peak_megabytes"]


def answer(measure: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read a JSON request from standard input, measure, and print the JSON answer."""
    print(json.dumps(measure(json.load(sys.stdin))))


def peak_megabytes() -> float:
    """Return the largest resident memory of this process and its running children, each at its own worst moment.

    `getrusage` would include the memory of the parent from before this program was loaded.
    """
    tasks = Path("/proc/self/task").glob("*/children")
    children = [pid for task in tasks for pid in task.read_text(encoding="ascii").split()]
    kilobytes = 0
    for process in ("self", *children):
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
        kilobytes += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return kilobytes / 1024


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
