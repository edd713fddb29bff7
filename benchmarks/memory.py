"""Memory must not grow with the number of rounds: a small `masked` study, networked and in one process.

Each study runs completely, through our commands. The benchmark samples the memory of its processes from outside after
chosen rounds: the coordinator and three sites connected over mutual TLS, then the same study in one process. An update
has one megabyte, so that a process that keeps updates is detected. The full size takes 1,000 rounds and some minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w
from common import Bar, arguments, finish, installed
from peers.json_script import free_port

from wardround.reports.tables import Row, Table
from wardround.studies.networked import plan_kits
from wardround.studies.study_file import SiteSection

HOSPITALS = {"harbour": "harbour-0000", "hillside": "hillside-0001", "riverside": "riverside-0002"}
NETWORK = {"word_buckets": 8192, "word_dimension": 32, "character_layer": "none", "word_cnn": 8, "lstm": 8}
MORE_ROUNDS = 5  # after the last sample: a process that is about to end has freed some of its memory
SECONDS_TO_START, SECONDS_PER_ROUND = 300.0, 5.0  # on a busy machine; beyond it, something is broken
NOTE = (
    "MB that the processes have allocated, without the mapped files of libraries, which the system loads and drops "
    "by itself; sites: the three together, each with its worker"
)

# Measured: 1.00 to 1.04. The arenas of glibc's allocator grow up to a limit, and FLARE keeps the numbers of the 10,000
# newest streams. A coordinator that kept a twentieth of an update per round would reach 1.11.
MOST_GROWTH = 1.10
MOST_THREADS = 2.0  # FLARE's pools may grow a little; a thread for each answer would reach 10


@dataclass(frozen=True)
class Size:
    """After which rounds memory is sampled, and which of these rounds is compared with the last."""

    rounds: tuple[int, ...]
    warm_up: int


SIZES = {
    "full": Size((50, 100, 200, 400, 600, 1000), 100),
    "quick": Size((50, 100, 200, 300), 50),
    "smallest": Size((2, 3, 4), 2),
}


@dataclass(frozen=True)
class Sample:
    """Memory and threads of the processes of a study after a round, by name."""

    round: int
    megabytes: Mapping[str, float]
    resident: Mapping[str, float]  # with the mapped files of libraries
    threads: Mapping[str, int]


@dataclass(frozen=True)
class RunningStudy:
    """A running study: its processes by name, and its file of events."""

    processes: Mapping[str, Sequence[subprocess.Popen[bytes]]]
    events: Path
    leader: subprocess.Popen[bytes]  # ends with the study
    output: Path  # its standard output and error


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    size = SIZES[options.size]
    studies = {"in one process": start_in_one_process}
    if installed("nvflare", "pip install 'wardround[flare]'"):
        studies = {"networked": start_networked, **studies}
    found = {name: measure(start, size) for name, start in studies.items()}
    by_process = {name: samples for samples in found.values() for name in samples[0].megabytes}
    table = Table("Memory over rounds, masked", ("round", *by_process), tuple(rows_of(by_process, size)), note=NOTE)
    figures = [{"study": name, **vars(sample)} for name, samples in found.items() for sample in samples]
    return finish("memory", table, figures, list(bars_of(by_process, size)), check=options.check)


def measure(start: Callable[[Path, ExitStack], RunningStudy], size: Size) -> list[Sample]:
    """Run a study and sample its processes; none is left behind, even if the study fails."""
    with TemporaryDirectory() as scratch, ExitStack() as running:
        file = Path(scratch) / "study.toml"
        file.write_text(study_text(size.rounds[-1] + MORE_ROUNDS, size.rounds[-1] // 10), encoding="utf-8")
        return list(samples_of(start(file, running), size.rounds))


def study_text(rounds: int, every: int) -> str:
    """Return the study file of three small hospitals, scored after `every` rounds."""
    table: dict[str, dict[str, Any]] = {
        "study": {"name": "memory", "seed": 7},
        "model": {**NETWORK, "shared": ["words", "word_cnn"]},
        "algorithm": {"name": "fedner", "rounds": rounds},
        "training": {"batch_size": 8},
        "evaluation": {"every": max(1, every)},
        "privacy": {"mechanism": "masked", "minimum_sites": len(HOSPITALS)},
        "federation": {"wait": SECONDS_TO_START, "deadline": 60.0, "checkpoint_every": 10},
        "sites": {name: {"built_in": hospital, "types": ["Drug"]} for name, hospital in HOSPITALS.items()},
    }
    return tomli_w.dumps(table)


def start_networked(file: Path, running: ExitStack) -> RunningStudy:
    """Start the study as `coordinator start` and `site start` do, without their supervisors."""
    from wardround.provisioning.kits import provision, read_kit
    from wardround.studies.networked import SiteChoice
    from wardround.studies.site_agent import accept

    plan = plan_kits(file, host="localhost", port=free_port(), days=2, keys="")
    kits = provision(*plan, file.parent / "kits")
    sites = []
    for name, hospital in HOSPITALS.items():
        kit = read_kit(kits[name])
        accept(kit)
        SiteChoice(SiteSection(built_in=hospital), "cpu").write_spec(kit)
        sites.append(start_command(running, file.parent / f"{name}.txt", "site", "work", kits[name]))
    output = file.parent / "coordinator.txt"
    coordinator = start_command(running, output, "coordinator", "work", kits["coordinator"])
    events = kits["coordinator"] / "run" / "events.jsonl"
    return RunningStudy({"coordinator": [coordinator], "sites": sites}, events, coordinator, output)


def start_in_one_process(file: Path, running: ExitStack) -> RunningStudy:
    """Start the study with `wardround run`."""
    out, output = file.parent / "run", file.parent / "output.txt"
    process = start_command(running, output, "run", file, "--out", out, "--device", "cpu")
    return RunningStudy({"one process": [process]}, out / "events.jsonl", process, output)


def start_command(running: ExitStack, output: Path, *words: str | Path) -> subprocess.Popen[bytes]:
    """Start one of our commands; it is killed at the latest when the measurement ends."""
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "wardround.cli.main", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    running.enter_context(process)
    running.callback(process.kill)
    return process


def samples_of(study: RunningStudy, rounds: Sequence[int]) -> Iterator[Sample]:
    """Sample the processes as soon as each of these rounds has finished; then wait for the end of the study."""
    last = 0
    for number in rounds:
        end = time.monotonic() + SECONDS_TO_START + SECONDS_PER_ROUND * (number - last)
        while last < number:
            if study.leader.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the study stopped after round {last}:\n{last_output(study)}")
            time.sleep(0.02)
            last = max(last, last_round(study.events))
        yield sample(study, last)
    if study.leader.wait(SECONDS_TO_START):
        raise SystemExit(f"the study failed at its end:\n{last_output(study)}")


def last_round(events_file: Path) -> int:
    """Return the last finished round of a run's events, 0 if there is none."""
    if not events_file.exists():
        return 0
    with events_file.open("rb") as stream:
        stream.seek(max(0, events_file.stat().st_size - 8192))
        lines = stream.read().split(b"\n")[:-1]  # the last line may be incomplete
    events = [json.loads(line) for line in lines if line.startswith(b'{"time"')]  # the first line may be cut
    return max((event["round"] for event in events if event["event"] == "round"), default=0)


def last_output(study: RunningStudy) -> str:
    """Return the end of the study's output."""
    return study.output.read_text(encoding="utf-8", errors="replace")[-2000:]


def sample(study: RunningStudy, number: int) -> Sample:
    """Return the memory and threads of the processes now."""
    found = {
        name: [status(pid) for process in processes for pid in with_descendants(process.pid)]
        for name, processes in study.processes.items()
    }
    return Sample(
        number,
        {name: sum(each["RssAnon"] for each in own) / 1024 for name, own in found.items()},
        {name: sum(each["VmRSS"] for each in own) / 1024 for name, own in found.items()},
        {name: sum(each["Threads"] for each in own) for name, own in found.items()},
    )


def status(pid: int) -> dict[str, int]:
    """Return the allocated kilobytes of a process, its resident kilobytes, and its threads."""
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
    return {name: int(value.split()[0]) for name, _, value in lines if name in ("RssAnon", "VmRSS", "Threads")}


def with_descendants(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended
                found += [int(child) for child in task.read_text(encoding="ascii").split()]
    return found


def growth(name: str, samples: Sequence[Sample], size: Size) -> tuple[float, float]:
    """Return memory and threads of the last sample over those after the warm-up."""
    warm, last = samples[size.rounds.index(size.warm_up)], samples[-1]
    return last.megabytes[name] / warm.megabytes[name], last.threads[name] / warm.threads[name]


def rows_of(by_process: Mapping[str, Sequence[Sample]], size: Size) -> Iterator[Row]:
    """Yield a row for each sample, then the growth."""
    for index, number in enumerate(size.rounds):
        yield (f"{number:,}", *(round(own[index].megabytes[name]) for name, own in by_process.items()))
    over = f"{size.rounds[-1]:,} over {size.warm_up}"
    yield (over, *(round(growth(name, own, size)[0], 3) for name, own in by_process.items()))
    yield ("threads", *(own[-1].threads[name] for name, own in by_process.items()))


def bars_of(by_process: Mapping[str, Sequence[Sample]], size: Size) -> Iterator[Bar]:
    """Limit the growth of memory and threads of each process."""
    over = f"round {size.rounds[-1]:,} over {size.warm_up}"
    for name, own in by_process.items():
        memory, threads = growth(name, own, size)
        yield Bar(f"{name}: memory, {over}", memory, most=MOST_GROWTH)
        yield Bar(f"{name}: threads, {over}", threads, most=MOST_THREADS)


if __name__ == "__main__":
    sys.exit(main())
