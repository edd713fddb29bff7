"""Start `wardround predict` on one note, and measure the seconds until its end and its peak memory.

This process stays small: Linux adds to a command's peak the memory of its parent at the time of the start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from json_script import answer


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of the clock, those of the processor, and the peak memory of each start."""
    code = "from wardround.cli.main import main; main()"
    command = [sys.executable, "-c", code, "predict", request["model"], request["note"], "--json"]
    found: dict[str, list[float]] = {"seconds": [], "processor": [], "peak_mb": []}
    for _ in range(request["starts"]):
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit("wardround predict failed")
        found["seconds"].append(time.perf_counter() - started)
        found["processor"].append(used.ru_utime + used.ru_stime)
        found["peak_mb"].append(used.ru_maxrss / 1024)
    return found


if __name__ == "__main__":
    answer(measure)
