"""Studies run side by side, each in a process of its own, and one file of results.

A run that is in the results is not repeated; one that was cut off goes on from its checkpoint where its folder is still
there. A script that leaves a summary also when it is stopped says so in it (`cut_off`): what it has is kept in the
results until the run is repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w
from papers.common.one_run import ASKED, SUMMARY

_ONE_RUN = Path(__file__).resolve().parent / "one_run.py"
_ROOT = Path(__file__).resolve().parents[2]  # from where a script finds what papers have in common
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}
_POLL = 0.2  # seconds
_PROBE = "import torch; torch.zeros(1, device='cuda')"


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


@dataclass
class Running:
    """A process and when it began."""

    run: Run
    process: subprocess.Popen[bytes]


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
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(json.dumps({**self._head, "runs": self.runs}, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)


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


class Pool:
    """Keeps at most so many cores busy at once, the longest runs first, until the time is over."""

    def __init__(self, out: Path, results: Results, *, processes: int, device: str, minutes: float) -> None:
        self.out, self.results = out, results
        self.processes, self.device = processes, device
        self._began = time.monotonic()
        self._ends = self._began + 60 * minutes if minutes else float("inf")
        self._running: list[Running] = []
        self.failed: list[str] = []

    def work(self, runs: Sequence[Run]) -> None:
        """Everything that fits; what still runs at the end is stopped."""
        waiting = sorted(runs, key=lambda run: -run.guess)
        try:
            while (waiting or self._running) and time.monotonic() < self._ends:
                for run in [run for run in waiting if self._fits(run)]:
                    if self._fits(run):
                        waiting.remove(run)
                        self._start(run)
                time.sleep(_POLL)
                self._collect()
        finally:
            self._stop()

    def _fits(self, run: Run) -> bool:
        busy = sum(running.run.slots for running in self._running)
        return not busy or busy + run.slots <= self.processes

    def _start(self, run: Run) -> None:
        folder = self.out / run.name
        folder.mkdir(parents=True, exist_ok=True)
        asked = tomli_w.dumps(run.study)
        known = folder / ASKED
        if known.is_file() and known.read_text(encoding="utf-8") != asked:
            shutil.rmtree(folder)
            folder.mkdir()
        known.write_text(asked, encoding="utf-8")
        command = [sys.executable, str(run.script or _ONE_RUN), str(folder), self.device, *run.options()]
        with (folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(command, env=_environment(), stdout=log, stderr=log)
        self._running.append(Running(run, process))

    def _collect(self) -> None:
        for running in [r for r in self._running if r.process.poll() is not None]:
            self._running.remove(running)
            self._finish(running)

    def _finish(self, running: Running) -> None:
        run, written = running.run, self.out / running.run.name / SUMMARY
        if running.process.returncode or not written.is_file():
            self.failed.append(run.name)
            print(f"{self._clock()} FAILED {run.name}: see its log.txt", flush=True)
            return
        summary = json.loads(written.read_text(encoding="utf-8"))
        self.results.add(run, summary)
        figures = f"{summary['seconds']:6.1f} s (guessed {run.guess:.0f}), {_line(summary)}"
        print(f"{self._clock()} {run.name}: {figures}", flush=True)

    def _clock(self) -> str:
        return f"[{time.monotonic() - self._began:5.0f} s]"

    def _stop(self) -> None:
        self._collect()
        for running in self._running:
            running.process.terminate()
            print(f"{self._clock()} cut off {running.run.name}", flush=True)
        for running in self._running:
            running.process.wait()
            if (self.out / running.run.name / SUMMARY).is_file():
                self._finish(running)
        self._running.clear()


def _environment() -> dict[str, str]:
    places = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(places)}


def _line(summary: Mapping[str, Any]) -> str:
    if "dev_f1" in summary:
        return f"dev F1 {summary['dev_f1']:.4f}, best of {summary['rounds']}: {summary['best_round']}"
    return f"F1 {summary['f1']:.4f} after {summary['rounds']} rounds"


@contextmanager
def shared_gpu(device: str) -> Iterator[None]:
    """Let the processes share the GPU through its multi-process service, where that is there and answers."""
    control = None if device == "cpu" else shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        subprocess.run([control, "-d"], check=False)
        answers = subprocess.run([sys.executable, "-c", _PROBE], check=False).returncode == 0
        print(f"multi-process service: {'used' if answers else 'does not answer; not used'}", flush=True)
        try:
            if not answers:
                _quit(control)
            yield
        finally:
            if answers:
                _quit(control)


def _quit(control: str) -> None:
    subprocess.run([control], input=b"quit\n", check=False)
    del os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]


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


def picked(tables: Collection[str], studies: Collection[str]) -> Callable[[str], list[str]]:
    """A kind of argument: names of tables or studies, parted by commas."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in tables and name not in studies:
                raise argparse.ArgumentTypeError(f"{name} is no table and no study; tables are {', '.join(tables)}")
        return found

    return names


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
    pool = Pool(asked.out.resolve(), results, processes=asked.processes, device=asked.device, minutes=asked.minutes)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left behind
    with shared_gpu(asked.device):
        pool.work(left)
    missing = [run.name for run in left if not results.has(run)]
    print(f"{len(left) - len(missing)} of {len(left)} runs finished")
    return 1 if pool.failed else 0
