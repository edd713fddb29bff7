"""Run a benchmark at its smallest size, as a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.processes import processes_of

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def smallest(name: str, scratch: Path) -> dict[str, Any]:
    """Return the JSON line. The benchmark writes only to `scratch` and leaves no file and no process behind."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), "--smallest"],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert not processes_of(scratch)
    assert not [path for path in scratch.rglob("*") if path.is_file()]  # torch creates an empty folder
    assert "━" in done.stdout, "a benchmark prints a table"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["benchmark"] == name
    assert found["figures"]
    return found
