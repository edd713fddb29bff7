"""What the benchmarks share: command line, peers, scripts in their own process, table, JSON line and exit status.

Every benchmark has three sizes. `--smallest` takes seconds and only shows that the benchmark still runs: its scripts
run in this process, peers that need an environment of their own are skipped, and its figures mean nothing. `--quick`
takes minutes. `--full` gives the published figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

from rich.console import Console

from wardround.reports.tables import Row, Table

__all__ = ["ROOT", "Bar", "Options", "Part", "arguments", "fastest", "finish", "installed", "report_skipped"]

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(__file__).resolve().parent / "peers"
Size = Literal["full", "quick", "smallest"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Bar:
    """A figure and the limit it must keep."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the figure keeps its limit."""
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)


@dataclass(frozen=True)
class Part:
    """One measurement of a benchmark: its rows of the table, its figures for the JSON line, and its bars."""

    rows: Sequence[Row] = ()
    figures: Sequence[dict[str, Any]] = ()
    bars: Sequence[Bar] = ()


@dataclass(frozen=True)
class Options:
    """The command line of a benchmark."""

    size: Size
    check: bool

    def run(self, script: str, request: Mapping[str, Any], *, python: Path | str = sys.executable) -> dict[str, Any]:
        """Run a script of `peers/` in a process of its own and return its answer.

        The script reads a JSON request from its standard input; the last line it prints is the JSON answer. At the
        smallest size a script of our own environment runs in this process, because starting one takes seconds.
        """
        text = json.dumps(request)
        if self.size == "smallest":
            if str(PEERS) not in sys.path:
                sys.path.insert(0, str(PEERS))
            return dict(json.loads(json.dumps(import_module(script).measure(json.loads(text)))))
        done = subprocess.run(
            [str(python), str(PEERS / f"{script}.py")], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{script}.py failed:\n{done.stderr[-2000:]}")
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))

    def peer_python(self, name: str, *requirements: str) -> Path | None:
        """Return a Python of `.bench/` with a peer that conflicts with our dependencies; install it the first time.

        Return None, with a message, if it cannot be installed, and at the smallest size.
        """
        if self.size == "smallest":
            report_skipped(name, "run a larger size to install and measure it")
            return None
        folder = ROOT / ".bench" / name
        python = folder / "bin" / "python"
        if (folder / "ready").exists():
            return python
        print(f"installing {', '.join(requirements)} into {folder.relative_to(ROOT)} …", file=sys.stderr)
        try:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            for requirement in requirements:  # in order: torch is pinned before a peer could widen it
                options = ["--require-hashes", "--no-deps"] if requirement.startswith("--requirement=") else []
                subprocess.run([str(python), "-m", "pip", "install", "--quiet", *options, requirement], check=True)
        except (OSError, subprocess.CalledProcessError):
            report_skipped(name, f"cannot install {', '.join(requirements)}")
            return None
        (folder / "ready").touch()
        return python


def arguments(description: str | None, *, default: Size = "full") -> Options:
    """Parse the command line, which is the same for every benchmark but for its `default` size."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = parser.add_mutually_exclusive_group()
    texts = {
        "full": "the sizes of the published figures",
        "quick": "small sizes, minutes",
        "smallest": "seconds: shows that the benchmark runs, its figures mean nothing",
    }
    for size, text in texts.items():
        help_text = f"{text} (the default)" if size == default else text
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, default=default, help=help_text)
    parser.add_argument("--check", action="store_true", help="exit 1 if a bar is missed")
    parsed = parser.parse_args()
    return Options(parsed.size, parsed.check)


def finish(name: str, table: Table, figures: Sequence[Mapping[str, Any]], bars: Sequence[Bar], *, check: bool) -> int:
    """Print the table, the bars and one JSON line; return the exit status."""
    console = Console()
    console.print(table.to_rich())
    for bar in bars:
        limit = f"at least {bar.least:g}" if bar.least is not None else f"at most {bar.most:g}"
        console.print(f"{'met   ' if bar.met else 'MISSED'} {bar.name}: {bar.value:.3g} ({limit})", highlight=False)
    summary = [{"name": b.name, "value": b.value, "least": b.least, "most": b.most, "met": b.met} for b in bars]
    print(json.dumps({"benchmark": name, "figures": list(figures), "bars": summary}))
    return int(check and not all(bar.met for bar in bars))


def fastest(call: Callable[[], _T], times: int = 3) -> tuple[_T, float]:
    """Return the result and the seconds of the fastest call, which other work on the machine disturbed least."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - started)
    return found, min(seconds)


def installed(package: str, remedy: str) -> bool:
    """Return whether a peer or an extra can be imported; report that its part is skipped if not."""
    found = find_spec(package) is not None
    if not found:
        report_skipped(package, remedy)
    return found


def report_skipped(name: str, remedy: str) -> None:
    """Report on standard error that a part of the benchmark is skipped, and what to do about it."""
    print(f"{name} is not installed, its part is skipped: {remedy}", file=sys.stderr)
