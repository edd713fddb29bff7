"""Run one of our commands and measure its peak memory.

This process stays small: Linux adds to a command's peak the memory of its parent at the time of the start.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any

from json_script import answer


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Run the command, wait for it, and return its peak memory and seconds."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "wardround.cli.main", *request["arguments"]], stdout=subprocess.DEVNULL, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(done.returncode)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"peak_mb": peak, "seconds": seconds}


if __name__ == "__main__":
    answer(measure)
