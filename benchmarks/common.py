"""What the benchmarks share: arguments, the table, the JSON line, the verdict."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from wardround.reports.tables import Table

__all__ = ["Bar", "arguments", "fastest", "finish", "peer_python", "run_json"]

ROOT = Path(__file__).resolve().parent.parent
_T = TypeVar("_T")


@dataclass(frozen=True)
class Bar:
    """A figure and the least (or most) it may be."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the figure is on the right side."""
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)


def arguments(description: str | None, *, smallest: bool = False) -> argparse.Namespace:
    """`--quick` for small sizes, `--check` to exit 1 where a bar is missed.

    With `smallest` there is `--smallest` too: sizes whose figures say nothing, to see that the benchmark runs.
    """
    parser = argparse.ArgumentParser(description=description)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="small sizes")
    if smallest:
        sizes.add_argument("--smallest", action="store_true", help="sizes whose figures say nothing: does it run?")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bar is missed")
    return parser.parse_args()


def finish(name: str, table: Table, figures: Sequence[Mapping[str, Any]], bars: Sequence[Bar], *, check: bool) -> int:
    """Print the table, the bars and one JSON line; the exit status."""
    console = Console()
    console.print(table.to_rich())
    for bar in bars:
        limit = f"at least {bar.least:g}" if bar.least is not None else f"at most {bar.most:g}"
        console.print(f"{'met   ' if bar.met else 'MISSED'} {bar.name}: {bar.value:.3g} ({limit})", highlight=False)
    summary = [{"name": b.name, "value": b.value, "least": b.least, "most": b.most, "met": b.met} for b in bars]
    print(json.dumps({"benchmark": name, "figures": list(figures), "bars": summary}))
    return int(check and not all(bar.met for bar in bars))


def fastest(call: Callable[[], _T], times: int = 3) -> tuple[_T, float]:
    """What it gives, and the seconds of the fastest of several: other work on the machine is not what is measured."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - started)
    return found, min(seconds)


def peer_python(name: str, *requirements: str) -> Path:
    """A Python with a peer in it that cannot live in our environment; made in `.bench/` the first time."""
    folder = ROOT / ".bench" / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"installing {', '.join(requirements)} into {folder.relative_to(ROOT)} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for requirement in requirements:  # in order: torch is pinned before a peer could widen it
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=True)
        (folder / "ready").touch()
    return python


def run_json(python: Path | str, script: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a script in a process of its own, a JSON request on its standard input, a JSON answer as its last line."""
    done = subprocess.run(
        [str(python), str(script)], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script.name} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer
