"""Run studies in parallel, each in its own process, and collect one results file.

A run that is in the results file is not repeated. An interrupted run continues from its checkpoint if its folder still
exists. A script may also write a summary when it is stopped and mark it `cut_off`; the results file keeps that summary
until the run is repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from wardround.sweeps.folders import prepare_folder, read_summary, write_atomically
from wardround.sweeps.pool import Job, Pool, shared_gpu

__all__ = ["Measurement", "Results", "Run", "add_arguments", "integers", "joined", "measure"]

_ONE_RUN = Path(__file__).resolve().parent / "one_run.py"
_ROOT = Path(__file__).resolve().parents[2]  # on PYTHONPATH, so that a script can import `papers`


@dataclass(frozen=True)
class Run:
    """One study with one seed."""

    variation: str
    seed: int
    study: Mapping[str, Any] = field(repr=False)  # the study file as tables
    guess: float  # seconds
    tuned: str = ""  # settings of this run that differ from those of the measurement
    facts: Mapping[str, Any] = field(default_factory=dict)  # written into the results beside the run's figures
    workers: int = 0  # processes that share its sites; 0: one process runs all of them
    script: Path | None = None  # called with the folder and the device; None: one_run.py
    own_options: Sequence[str] = ()  # of that script

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        parts = [self.variation, self.tuned.replace(",", "_").replace("=", "-"), f"seed-{self.seed}"]
        return "-".join(filter(None, parts))

    @property
    def key(self) -> tuple[str, int, str]:
        """Return what identifies it in the results."""
        return self.variation, self.seed, self.tuned

    @property
    def slots(self) -> int:
        """Return the number of cores that it uses."""
        return max(1, self.workers)


class Results:
    """The results file, rewritten after each run; `head` is what all its runs have in common."""

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
        """Return whether the run is finished."""
        return any(_key(found) == run.key and not found.get("cut_off") for found in self.runs)

    def add(self, run: Run, summary: Mapping[str, Any]) -> None:
        """Write a run's summary, which replaces that of the same run cut off earlier."""
        own = {"variation": run.variation, "seed": run.seed, "tuned": run.tuned}
        self.runs = [found for found in self.runs if _key(found) != run.key]
        self.runs.append({**own, **run.facts, **summary})
        self.runs.sort(key=_key)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, json.dumps({**self._head, "runs": self.runs}, indent=1) + "\n")


def joined(files: Sequence[Path]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the common head of the results files of one measurement, and their runs without repeats."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    runs = {_key(run): run for results in found for run in results.pop("runs")}
    if any(head != found[0] for head in found):
        sys.exit("the results files have different settings or sites; they are not one measurement")
    devices = sorted({run["device"] for run in runs.values()})
    return {**found[0], "devices": devices}, list(runs.values())


def _key(run: Mapping[str, Any]) -> tuple[str, int, str]:
    return run["variation"], run["seed"], run["tuned"]


class Measurement:
    """Run studies in a pool of processes and write the summary of each into the results."""

    def __init__(self, out: Path, results: Results, *, device: str) -> None:
        self.out, self.results, self.device = out, results, device
        self.failed: list[str] = []
        self._runs: dict[str, Run] = {}
        self._began = time.monotonic()

    def work(self, runs: Sequence[Run], *, processes: int, minutes: float = 0.0) -> None:
        """Start all runs that fit into the time; stop those that still run at its end."""
        self._runs = {run.name: run for run in runs}
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        jobs = []
        for run in runs:
            folder, workers = self.out / run.name, ["--workers", str(run.workers)] if run.workers else []
            command = [sys.executable, str(run.script or _ONE_RUN), str(folder), self.device]
            jobs.append(Job(run.name, folder, [*command, *workers, *run.own_options], run.guess, run.slots))
        Pool(self, processes, minutes, {"PYTHONPATH": os.pathsep.join(paths)}).work(jobs)

    def on_start(self, job: Job) -> None:
        """Write the study into the run's folder."""
        prepare_folder(job.folder, tomli_w.dumps(self._runs[job.name].study))

    def on_end(self, job: Job, status: int) -> None:
        """Add the summary to the results, or report that the run failed."""
        run, summary = self._runs[job.name], read_summary(job.folder)
        if status or summary is None:
            self.failed.append(run.name)
            print(f"{self._clock()} FAILED {run.name}: see its log.txt", flush=True)
            return
        self.results.add(run, summary)
        if "dev_f1" in summary:
            scores = f"dev F1 {summary['dev_f1']:.4f}, best of {summary['rounds']}: {summary['best_round']}"
        else:
            scores = f"F1 {summary['f1']:.4f} after {summary['rounds']} rounds"
        seconds = f"{summary['seconds']:6.1f} s (guessed {run.guess:.0f})"
        print(f"{self._clock()} {run.name}: {seconds}, {scores}", flush=True)

    def on_stop(self, job: Job, status: int) -> None:
        """Keep the summary of a script that writes one when it is stopped."""
        print(f"{self._clock()} cut off {job.name}", flush=True)
        if read_summary(job.folder) is not None:
            self.on_end(job, status)

    def _clock(self) -> str:
        return f"[{time.monotonic() - self._began:5.0f} s]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that every measurement has."""
    parser.add_argument("--sites", type=Path, required=True, help="the folder that make_sites wrote")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run folders")
    parser.add_argument("--results", type=Path, help="default: results.json in --out")
    parser.add_argument("--processes", type=int, default=1, help="runs in parallel")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this time; 0: never")
    parser.add_argument("--dry-run", action="store_true", help="list the runs and their expected seconds")


def integers(text: str) -> list[int]:
    """Parse comma-separated integers."""
    return [int(part) for part in text.split(",")]


def measure(runs: Sequence[Run], head: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Run what is not finished, or list it; return the exit status."""
    results = Results(options.results or options.out / "results.json", head)
    left = [run for run in runs if not results.has(run)]
    minutes = sum(run.guess * run.slots for run in left) / 60
    print(f"{len(runs)} runs, {len(runs) - len(left)} of them finished before", flush=True)
    parallel = f"{minutes / options.processes:.0f} with {options.processes} in parallel"
    print(f"guessed: {minutes:.0f} minutes of processes, {parallel}")
    if options.dry_run:
        for run in sorted(left, key=lambda run: -run.guess):
            print(f"{run.guess:6.0f} s  {run.name}")
        return 0
    measurement = Measurement(options.out.resolve(), results, device=options.device)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the pool, which ends its processes
    with shared_gpu(options.device, say=lambda text: print(text, flush=True)):
        measurement.work(left, processes=options.processes, minutes=options.minutes)
    missing = [run.name for run in left if not results.has(run)]
    print(f"{len(left) - len(missing)} of {len(left)} runs finished")
    return 1 if measurement.failed else 0
