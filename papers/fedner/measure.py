"""Run the studies of the FedNER paper side by side and gather one `results.json`.

    python papers/fedner/measure.py --sites runs/fedner/sites --out runs/fedner/work --only table2,figure4 \
        --seeds 0,1,2 --processes 14 --device cuda --set encoder=carry/minilm

Every study and seed is a process of its own. A run that is in the results is not repeated; one that was cut off goes on
from its checkpoint where its folder is still there. `--tune shared_learning_rate=1e-3,2e-3` runs each study with each
value; such runs are told apart in the results and are in no table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w
from one_run import ASKED, SUMMARY
from variations import TABLES, VARIATIONS, Settings, Sites, Variation, estimate, study_of

from wardround.settings import parse_settings, with_settings

TINY = {"rounds": "3", "encoder": "", "scorings": "1"}
_ONE_RUN = Path(__file__).resolve().parent / "one_run.py"
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}
_POLL = 0.2  # seconds
_PROBE = "import torch; torch.zeros(1, device='cuda')"


@dataclass(frozen=True)
class Run:
    """One study with one seed."""

    variation: Variation
    seed: int
    settings: Settings
    tuned: str = ""  # what this run has other than the rest of the measurement

    @property
    def name(self) -> str:
        """Of its folder."""
        parts = [self.variation.name, self.tuned.replace(",", "_").replace("=", "-"), f"seed-{self.seed}"]
        return "-".join(filter(None, parts))

    @property
    def key(self) -> tuple[str, int, str]:
        """What it is called in the results."""
        return self.variation.name, self.seed, self.tuned


@dataclass
class Running:
    """A process and when it began."""

    run: Run
    process: subprocess.Popen[bytes]
    started: float


class Results:
    """The file of finished runs, whole after each of them."""

    def __init__(self, path: Path, settings: Settings, sites: Sites) -> None:
        self.path = path
        self._head = {
            "settings": asdict(replace(settings, encoder=Path(settings.encoder).name)),
            "sites": sites.described,
        }
        self.runs: list[dict[str, Any]] = []
        if path.is_file():
            known = json.loads(path.read_text(encoding="utf-8"))
            self.runs = known.pop("runs")
            if known != self._head:
                sys.exit(f"{path.name} holds runs with other settings or sites; name another file with --results")

    def has(self, run: Run) -> bool:
        """Whether the run is finished."""
        return any((r["variation"], r["seed"], r["tuned"]) == run.key for r in self.runs)

    def add(self, run: Run, summary: Mapping[str, Any]) -> None:
        """Write it down."""
        self.runs.append({"variation": run.variation.name, "seed": run.seed, "tuned": run.tuned, **summary})
        self.runs.sort(key=lambda r: (list(VARIATIONS).index(r["variation"]), r["tuned"], r["seed"]))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(json.dumps({**self._head, "runs": self.runs}, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)


class Pool:
    """Runs at most so many processes at once, the longest first, until the time is over."""

    def __init__(
        self, out: Path, sites: Sites, results: Results, *, processes: int, device: str, minutes: float
    ) -> None:
        self.out, self.sites, self.results = out, sites, results
        self.processes, self.device = processes, device
        self._began = time.monotonic()
        self._ends = self._began + 60 * minutes if minutes else float("inf")
        self._running: list[Running] = []
        self.failed: list[str] = []

    def work(self, runs: Sequence[Run]) -> None:
        """Everything that fits; what still runs at the end is stopped."""
        waiting = sorted(runs, key=lambda run: -estimate(run.variation, run.settings, self.sites))
        try:
            while (waiting or self._running) and time.monotonic() < self._ends:
                while waiting and len(self._running) < self.processes:
                    self._start(waiting.pop(0))
                time.sleep(_POLL)
                self._collect()
        finally:
            self._stop()

    def _start(self, run: Run) -> None:
        folder = self.out / run.name
        folder.mkdir(parents=True, exist_ok=True)
        asked = tomli_w.dumps(study_of(run.variation, run.seed, run.settings, self.sites))
        known = folder / ASKED
        if known.is_file() and known.read_text(encoding="utf-8") != asked:
            shutil.rmtree(folder)
            folder.mkdir()
        known.write_text(asked, encoding="utf-8")
        command = [sys.executable, str(_ONE_RUN), str(folder), self.device]
        environment = os.environ | _ENVIRONMENT
        with (folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._running.append(Running(run, process, time.monotonic()))

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
        guess = estimate(run.variation, run.settings, self.sites)
        figures = f"{summary['seconds']:6.1f} s (guessed {guess:.0f}), dev F1 {summary['dev_f1']:.4f}"
        print(
            f"{self._clock()} {run.name}: {figures}, best of {summary['rounds']}: {summary['best_round']}", flush=True
        )

    def _clock(self) -> str:
        return f"[{time.monotonic() - self._began:5.0f} s]"

    def _stop(self) -> None:
        self._collect()
        for running in self._running:
            running.process.terminate()
            print(f"{self._clock()} cut off {running.run.name}", flush=True)
        for running in self._running:
            running.process.wait()
        self._running.clear()


def runs_of(tables: Sequence[str], seeds: Sequence[int], settings: Settings, tune: Mapping[str, str]) -> list[Run]:
    """Every study that a table needs, once, with every seed and every value to be tried."""
    wanted = [v for v in VARIATIONS.values() if v.name in tables or not set(v.tables).isdisjoint(tables)]
    values = [[(name, value) for value in text.split(",")] for name, text in tune.items()]
    runs = []
    for chosen in itertools.product(*values):
        changed = with_settings(settings, dict(chosen), "the measurement")
        tuned = ",".join(f"{name}={value}" for name, value in chosen)
        runs += [Run(variation, seed, changed, tuned) for variation in wanted for seed in seeds]
    return runs


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


def main() -> None:
    """Measure, or say what would be measured."""
    asked = arguments()
    changes = (TINY if asked.tiny else {}) | parse_settings(asked.set)
    settings = with_settings(Settings(), changes, "the measurement")
    if "/" in settings.encoder:
        settings = replace(settings, encoder=str(Path(settings.encoder).resolve()))
    sites = Sites.read(asked.sites)
    results = Results(asked.results or asked.out / "results.json", settings, sites)
    chosen = runs_of(asked.only, asked.seeds, settings, parse_settings(asked.tune))
    left = [run for run in chosen if not results.has(run)]
    guesses = {run: estimate(run.variation, run.settings, sites) for run in left}
    minutes = sum(guesses.values()) / 60
    print(f"{len(chosen)} runs, {len(chosen) - len(left)} of them finished before", flush=True)
    print(
        f"guessed: {minutes:.0f} minutes of processes, {minutes / asked.processes:.0f} with {asked.processes} at once"
    )
    if asked.dry_run:
        for run in sorted(left, key=lambda run: -guesses[run]):
            print(f"{guesses[run]:6.0f} s  {run.name}")
        return
    pool = Pool(
        asked.out.resolve(), sites, results, processes=asked.processes, device=asked.device, minutes=asked.minutes
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left behind
    with shared_gpu(asked.device):
        pool.work(left)
    missing = [run.name for run in left if not results.has(run)]
    print(f"{len(left) - len(missing)} of {len(left)} runs finished")
    sys.exit(1 if pool.failed else 0)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=Path, required=True, help="the folder make_sites.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="where each run has its folder")
    parser.add_argument("--results", type=Path, help="default: results.json in --out")
    parser.add_argument("--only", type=_names, default=list(TABLES), help=f"of {', '.join(TABLES)}, or studies by name")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so many; 0 is never")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="a setting of all studies")
    parser.add_argument("--tune", action="append", metavar="NAME=V1,V2", help="a setting to be tried with each value")
    parser.add_argument("--tiny", action="store_true", help="three rounds without an encoder: does it work at all?")
    parser.add_argument("--dry-run", action="store_true", help="list the runs and guess their seconds")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in TABLES and name not in VARIATIONS:
            raise argparse.ArgumentTypeError(f"{name} is no table and no study; tables are {', '.join(TABLES)}")
    return names


if __name__ == "__main__":
    main()
