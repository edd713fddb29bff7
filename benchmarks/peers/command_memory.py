"""Run one of our commands and say how much memory it took at most; request and answer as JSON.

This process is small and loads nothing: Linux counts to a command's peak what its parent held when it was started.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time


def main() -> None:
    """Run, wait, answer."""
    arguments = json.load(sys.stdin)["arguments"]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "wardround.cli.main", *arguments], stdout=subprocess.DEVNULL, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.returncode)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"peak_mb": peak, "seconds": seconds}))


if __name__ == "__main__":
    main()
