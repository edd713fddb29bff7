"""Studies run side by side, each in a process of its own, and one file of results.

A run that is in the results is not repeated; one that was cut off goes on from its checkpoint where its folder is still
there. A script that leaves a summary also when it is stopped says so in it (`cut_off`): what it has is kept in the
results until the run is repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from wardround.sweeps.folders import prepare_folder, read_summary, write_atomically
from wardround.sweeps.pool import Job, Pool, shared_gpu

_ONE_RUN = Path(__file__).resolve().parent / "one_run.py"
_ROOT = Path(__file__).resolve().parents[2]  # from where a script finds what papers have in common


@dataclass(frozen=True)
class Run:
    """One study with one seed."""

    variation: str
    seed: int
    study: Mapping[str, Any] = field(repr=False)  # as tables
    guess: float  # seconds
    tuned: str = ""  # what this run has other than the rest of the measurement
    facts: Mapping[str, Any] = field(default_factory=dict)  # more to be written down with its figures
    workers: int = 0  # processes that share its sites; 0 is the run's own
    score_training: bool = False
    script: Path | None = None  # that runs it, with its folder and the device; none is `one_run.py`
    own_options: Sequence[str] = ()  # of that script

    @property
    def name(self) -> str:
        """Of its folder."""
        parts = [self.variation, self.tuned.replace(",", "_").replace("=", "-"), f"seed-{self.seed}"]
        return "-".join(filter(None, parts))

    @property
    def key(self) -> tuple[str, int, str]:
        """What it is called in the results."""
        return self.variation, self.seed, self.tuned

    @property
    def slots(self) -> int:
        """How many cores it keeps busy."""
        return max(1, self.workers)

    def options(self) -> list[str]:
        """Of its script."""
        workers = ["--workers", str(self.workers)] if self.workers else []
        return [*workers, *(["--score-training"] if self.score_training else []), *self.own_options]


class Results:
    """The file of finished runs, whole after each of them; `head` is what all of them have in common."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self.path = path
        self._head = json.loads(json.dumps(head))
        self.runs: list[dict[str, Any]] = []
        if path.is_file():
            known = json.loads(path.read_text(encoding="utf-8"))
            self.runs = known.pop("runs")
            if known != self._head:
                sys.exit(f"{path.name} holds runs with other settings or sites; name another file with --results")

    def has(self, run: Run) -> bool:
        """Whether the run is finished."""
        return any(_key(found) == run.key and not found.get("cut_off") for found in self.runs)

    def add(self, run: Run, summary: Mapping[str, Any]) -> None:
        """Write it down, in place of what it left when it was cut off."""
        own = {"variation": run.variation, "seed": run.seed, "tuned": run.tuned}
        self.runs = [found for found in self.runs if _key(found) != run.key]
        self.runs.append({**own, **run.facts, **summary})
        self.runs.sort(key=_key)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, json.dumps({**self._head, "runs": self.runs}, indent=1) + "\n")


def joined(files: Sequence[Path]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the files of one measurement have in common, and their runs; one that two of them hold counts once."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    runs = {_key(run): run for results in found for run in results.pop("runs")}
    if any(head != found[0] for head in found):
        sys.exit("the files of results have different settings or sites; they are not one measurement")
    devices = sorted({run["device"] for run in runs.values()})
    return {**found[0], "devices": devices}, list(runs.values())


def _key(run: Mapping[str, Any]) -> tuple[str, int, str]:
    return run["variation"], run["seed"], run["tuned"]


class Measurement:
    """Runs what it is given in a pool of processes, and writes down what each of them found."""

    def __init__(self, out: Path, results: Results, *, device: str) -> None:
        self.out, self.results, self.device = out, results, device
        self.failed: list[str] = []
        self._runs: dict[str, Run] = {}
        self._began = time.monotonic()

    def work(self, runs: Sequence[Run], *, processes: int, minutes: float = 0.0) -> None:
        """Everything that fits; what still runs at the end is stopped."""
        self._runs = {run.name: run for run in runs}
        places = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        pool = Pool(self, processes, minutes, {"PYTHONPATH": os.pathsep.join(places)})
        pool.work([self._job(run) for run in runs])

    def _job(self, run: Run) -> Job:
        folder = self.out / run.name
        command = [sys.executable, str(run.script or _ONE_RUN), str(folder), self.device, *run.options()]
        return Job(run.name, folder, command, run.guess, run.slots)

    def on_start(self, job: Job) -> None:
        """Write down what it is to run."""
        prepare_folder(job.folder, tomli_w.dumps(self._runs[job.name].study))

    def on_end(self, job: Job, status: int) -> None:
        """Write its summary down, or say that it failed."""
        run, summary = self._runs[job.name], read_summary(job.folder)
        if status or summary is None:
            self.failed.append(run.name)
            print(f"{self._clock()} FAILED {run.name}: see its log.txt", flush=True)
            return
        self.results.add(run, summary)
        figures = f"{summary['seconds']:6.1f} s (guessed {run.guess:.0f}), {_line(summary)}"
        print(f"{self._clock()} {run.name}: {figures}", flush=True)

    def on_stop(self, job: Job, status: int) -> None:
        """A script that leaves a summary also when it is stopped is heard."""
        print(f"{self._clock()} cut off {job.name}", flush=True)
        if read_summary(job.folder) is not None:
            self.on_end(job, status)

    def _clock(self) -> str:
        return f"[{time.monotonic() - self._began:5.0f} s]"


def _line(summary: Mapping[str, Any]) -> str:
    if "dev_f1" in summary:
        return f"dev F1 {summary['dev_f1']:.4f}, best of {summary['rounds']}: {summary['best_round']}"
    return f"F1 {summary['f1']:.4f} after {summary['rounds']} rounds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line of every measurement has."""
    parser.add_argument("--sites", type=Path, required=True, help="the folder make_sites wrote")
    parser.add_argument("--out", type=Path, required=True, help="where each run has its folder")
    parser.add_argument("--results", type=Path, help="default: results.json in --out")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so many; 0 is never")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="a setting of all studies")
    parser.add_argument("--dry-run", action="store_true", help="list the runs and guess their seconds")


def command_line(
    about: str | None,
    tables: Collection[str],
    studies: Collection[str],
    *,
    only: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    tiny: str,
) -> argparse.ArgumentParser:
    """That of a paper's measurement; without `only` tables must be named, without `seeds` each table has its own."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument(
        "--only",
        type=picked(tables, studies),
        default=only,
        required=only is None,
        help=f"of {', '.join(tables)}, or runs by name",
    )
    told = "those of each table" if seeds is None else ",".join(map(str, seeds))
    parser.add_argument("--seeds", type=whole_numbers, default=seeds, help=f"default: {told}")
    parser.add_argument("--tiny", action="store_true", help=f"{tiny}: does it work at all?")
    return parser


def picked(tables: Collection[str], studies: Collection[str]) -> Callable[[str], list[str]]:
    """A kind of argument: names of tables or studies, parted by commas."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in tables and name not in studies:
                raise argparse.ArgumentTypeError(f"{name} is no table and no study; tables are {', '.join(tables)}")
        return found

    return names


def whole_numbers(text: str) -> list[int]:
    """A kind of argument: numbers parted by commas."""
    return [int(part) for part in text.split(",")]


def measure(runs: Sequence[Run], head: Mapping[str, Any], asked: argparse.Namespace) -> int:
    """Run what is not finished, or say what would be run; the exit status."""
    results = Results(asked.results or asked.out / "results.json", head)
    left = [run for run in runs if not results.has(run)]
    minutes = sum(run.guess * run.slots for run in left) / 60
    print(f"{len(runs)} runs, {len(runs) - len(left)} of them finished before", flush=True)
    print(
        f"guessed: {minutes:.0f} minutes of processes, {minutes / asked.processes:.0f} with {asked.processes} at once"
    )
    if asked.dry_run:
        for run in sorted(left, key=lambda run: -run.guess):
            print(f"{run.guess:6.0f} s  {run.name}")
        return 0
    measurement = Measurement(asked.out.resolve(), results, device=asked.device)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left behind
    with shared_gpu(asked.device, say=lambda text: print(text, flush=True)):
        measurement.work(left, processes=asked.processes, minutes=asked.minutes)
    missing = [run.name for run in left if not results.has(run)]
    print(f"{len(left) - len(missing)} of {len(left)} runs finished")
    return 1 if measurement.failed else 0
