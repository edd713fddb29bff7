"""Start times: Python alone, `import wardround`, and the commands that need no network, beside `flwr --help`.

Every line of the table starts a process and waits for its end. The commands take turns, so that other work on the
machine disturbs all of them alike; each figure is the median of its starts. Ratios are to `python -c pass` of the same
run. Processor seconds are user and system time together, which other work disturbs less than the time of the clock; the
bars are about the clock, so run them on an idle machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from common import Bar, arguments, finish

from wardround.corpora.jsonl import Jsonl
from wardround.reports.tables import Table
from wardround.text.document import Document, Entity, Range

STARTS = {"full": 21, "quick": 7, "smallest": 1}
FLOWER = "flwr[simulation]==1.41.0"  # the environment of `engine.py`
PYTHON = "python -c pass"
BARS = {  # seconds
    "import wardround": 0.2,
    "wardround --help": 0.5,
    "wardround model presets": 1.0,
    "wardround study algorithms": 1.0,
    "wardround data check": 1.0,
}
NOTE = "Median of {} starts each, in turns; × is the ratio to `python -c pass` by the clock."
COLUMNS = ("start", "seconds", "×", "processor seconds")
# What the installed script does, with the interpreter that runs this benchmark.
_COMMAND = "from wardround.cli.main import main; main()"


@dataclass(frozen=True)
class Start:
    """One start of a process."""

    seconds: float  # of the clock
    processor: float  # user and system


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    times = STARTS[options.size]
    flower = options.peer_python("flower", FLOWER)
    with TemporaryDirectory() as scratch:
        notes = Path(scratch) / "notes.jsonl"
        Jsonl().write([Document("n1", "Aspirin caused a rash.", (Entity("T1", "Drug", (Range(0, 7),)),))], notes)
        commands = commands_over(notes, flower)
        starts: dict[str, list[Start]] = {name: [] for name in commands}
        for _ in range(times):
            for name, command in commands.items():
                starts[name].append(start(name, command))
    figures = summarise(starts)
    rows = tuple((f["start"], f["seconds"], f"{f['ratio']:.1f}", f["processor_seconds"]) for f in figures)
    seconds = {figure["start"]: figure["seconds"] for figure in figures}
    bars = [Bar(f"{name}, seconds", seconds[name], most=most) for name, most in BARS.items()]
    table = Table("Start times", COLUMNS, rows, note=NOTE.format(times))
    return finish("startup", table, figures, bars, check=options.check)


def commands_over(notes: Path, flower: Path | None) -> dict[str, Sequence[str]]:
    """Return what is started, by the name in the table; Flower only where it is installed."""
    ours = (sys.executable, "-c", _COMMAND)
    found: dict[str, Sequence[str]] = {
        PYTHON: (sys.executable, "-c", "pass"),
        "import wardround": (sys.executable, "-c", "import wardround"),
        "wardround --help": (*ours, "--help"),
        "wardround model presets": (*ours, "model", "presets"),
        "wardround study algorithms": (*ours, "study", "algorithms"),
        "wardround data check": (*ours, "data", "check", str(notes), "--format", "jsonl"),
    }
    if flower is not None:
        found["flwr --help"] = (str(flower.with_name("flwr")), "--help")
    return found


def start(name: str, command: Sequence[str]) -> Start:
    """Start a process and wait for its end."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    children = (after.children_user, after.children_system), (before.children_user, before.children_system)
    return Start(seconds, sum(children[0]) - sum(children[1]))


def summarise(starts: dict[str, list[Start]]) -> list[dict[str, Any]]:
    """Return the medians, and the ratio of each to Python alone."""
    seconds = {name: median(one.seconds for one in found) for name, found in starts.items()}
    return [
        {
            "start": name,
            "seconds": seconds[name],
            "ratio": seconds[name] / seconds[PYTHON],
            "processor_seconds": median(one.processor for one in found),
            "starts": len(found),
        }
        for name, found in starts.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
