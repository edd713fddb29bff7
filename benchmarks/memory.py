"""Memory that does not grow with the rounds: a small study under `masked`, among hospitals and in one process.

Each study runs whole, by our commands, and its processes are looked at from outside after chosen rounds: the
coordinator and three sites that it reaches over mutual TLS, then the same study in one process. An update has a
megabyte, so that a process that keeps updates shows it. Without `--quick` it takes 1,000 rounds and some minutes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w
from common import Bar, arguments, finish

from wardround.cli.provision import planned
from wardround.reports.tables import Row, Table
from wardround.studies.study_file import SiteSection

HOSPITALS = {"harbour": "harbour-0000", "hillside": "hillside-0001", "riverside": "riverside-0002"}
NETWORK = {"word_buckets": 8192, "word_dimension": 32, "character_layer": "none", "word_cnn": 8, "lstm": 8}
MORE_ROUNDS = 5  # after the last that counts: a process that ends has freed some of its memory
SECONDS_TO_START, SECONDS_A_ROUND = 300.0, 5.0  # of a machine that is busy; beyond, something is broken
NOTE = (
    "MB that the processes have allocated, without the files of libraries, which the system reads and drops as it "
    "likes; sites: the three together, each with its worker"
)

# Measured: 1.00 to 1.04. What grows are arenas of glibc's allocator, up to a limit, and the 10,000 newest streams of
# which FLARE remembers the numbers. A coordinator that kept a twentieth of an update a round would be at 1.11.
MOST_GROWTH = 1.10
MOST_THREADS = 2.0  # FLARE's pools may grow a little; a thread for each answer would be 10


@dataclass(frozen=True)
class Sizes:
    """After which rounds memory is looked at, and which of them is compared with the last."""

    looks: tuple[int, ...]
    warm: int


FULL = Sizes((50, 100, 200, 400, 600, 1000), 100)
QUICK = Sizes((50, 100, 200, 300), 50)
SMALLEST = Sizes((2, 3, 4), 2)


@dataclass(frozen=True)
class Look:
    """What the processes of a study had after a round, by name."""

    round: int
    megabytes: Mapping[str, float]
    resident: Mapping[str, float]  # with the files of libraries
    threads: Mapping[str, int]


@dataclass(frozen=True)
class Started:
    """A study that runs: its processes by name, each with all below it, and its record of events."""

    processes: Mapping[str, Sequence[subprocess.Popen[bytes]]]
    record: Path
    leader: subprocess.Popen[bytes]  # ends with the study
    output: Path  # what it prints


def main() -> int:
    """Measure and report."""
    asked = arguments(__doc__, smallest=True)
    sizes = SMALLEST if asked.smallest else QUICK if asked.quick else FULL
    studies = {"among hospitals": among_hospitals, "in one process": in_one_process}
    if find_spec("nvflare") is None:
        print("FLARE is not installed, its part is left out: pip install 'wardround[flare]'", file=sys.stderr)
        del studies["among hospitals"]
    found = {name: measured(start, sizes) for name, start in studies.items()}
    looks = {name: looks for looks in found.values() for name in looks[0].megabytes}
    table = Table("Memory over rounds, masked", ("round", *looks), tuple(rows_of(looks, sizes)), note=NOTE)
    figures = [{"study": name, **vars(look)} for name, looks in found.items() for look in looks]
    return finish("memory", table, figures, list(bars_of(looks, sizes)), check=asked.check)


def measured(start: Callable[[Path, ExitStack], Started], sizes: Sizes) -> list[Look]:
    """Run a study and look at its processes; none is left behind, however it ends."""
    with TemporaryDirectory() as scratch, ExitStack() as running:
        file = Path(scratch) / "study.toml"
        file.write_text(study_text(sizes.looks[-1] + MORE_ROUNDS, sizes.looks[-1] // 10), encoding="utf-8")
        return list(watched(start(file, running), sizes.looks))


def study_text(rounds: int, every: int) -> str:
    """Three small hospitals, scored every so many rounds."""
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


def among_hospitals(file: Path, running: ExitStack) -> Started:
    """The study as `coordinator start` and `site start` run it, without their supervisors."""
    from wardround.provisioning.kits import provision, read_kit
    from wardround.studies.networked import SiteChoice
    from wardround.studies.site_agent import accept

    plan = planned(file, host="localhost", port=free_port(), days=2, keys="")
    kits = provision(*plan, file.parent / "kits")
    sites = []
    for name, hospital in HOSPITALS.items():
        kit = read_kit(kits[name])
        accept(kit)
        SiteChoice(SiteSection(built_in=hospital), "cpu").write_spec(kit)
        sites.append(command(running, file.parent / f"{name}.txt", "site", "work", kits[name]))
    output = file.parent / "coordinator.txt"
    coordinator = command(running, output, "coordinator", "work", kits["coordinator"])
    record = kits["coordinator"] / "run" / "events.jsonl"
    return Started({"coordinator": [coordinator], "sites": sites}, record, coordinator, output)


def in_one_process(file: Path, running: ExitStack) -> Started:
    """The study as `wardround run` runs it."""
    out, output = file.parent / "run", file.parent / "output.txt"
    process = command(running, output, "run", file, "--out", out, "--device", "cpu")
    return Started({"one process": [process]}, out / "events.jsonl", process, output)


def command(running: ExitStack, output: Path, *words: str | Path) -> subprocess.Popen[bytes]:
    """One of our commands in a process of its own, killed at the latest when the measurement is over."""
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


def watched(study: Started, looks: Sequence[int]) -> Iterator[Look]:
    """Look at the processes as soon as each of these rounds is finished; then wait for the study's end."""
    last = 0
    for number in looks:
        end = time.monotonic() + SECONDS_TO_START + SECONDS_A_ROUND * (number - last)
        while last < number:
            if study.leader.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the study stopped after round {last}:\n{said(study)}")
            time.sleep(0.02)
            last = max(last, last_round(study.record))
        yield look(study, last)
    if study.leader.wait(SECONDS_TO_START):
        raise SystemExit(f"the study failed at its end:\n{said(study)}")


def last_round(record: Path) -> int:
    """The last finished round, as the end of a run's record has it; 0 where it has none."""
    if not record.exists():
        return 0
    with record.open("rb") as stream:
        stream.seek(max(0, record.stat().st_size - 8192))
        lines = stream.read().split(b"\n")[:-1]  # what follows the last is being written
    events = [json.loads(line) for line in lines if line.startswith(b'{"time"')]  # the first may be cut
    return max((event["round"] for event in events if event["event"] == "round"), default=0)


def said(study: Started) -> str:
    """What the study printed last."""
    return study.output.read_text(encoding="utf-8", errors="replace")[-2000:]


def look(study: Started, number: int) -> Look:
    """What the processes have now."""
    found = {
        name: [status(pid) for process in processes for pid in with_descendants(process.pid)]
        for name, processes in study.processes.items()
    }
    return Look(
        number,
        {name: sum(each["RssAnon"] for each in own) / 1024 for name, own in found.items()},
        {name: sum(each["VmRSS"] for each in own) / 1024 for name, own in found.items()},
        {name: sum(each["Threads"] for each in own) for name, own in found.items()},
    )


def status(pid: int) -> dict[str, int]:
    """Kilobytes that a process allocated, those with files, and its threads."""
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
    return {name: int(value.split()[0]) for name, _, value in lines if name in ("RssAnon", "VmRSS", "Threads")}


def with_descendants(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):  # a thread that has ended since
                found += [int(child) for child in task.read_text(encoding="ascii").split()]
    return found


def growth(name: str, looks: Sequence[Look], sizes: Sizes) -> tuple[float, float]:
    """Of memory and of threads, the last look over the one after the warm-up."""
    warm, last = looks[sizes.looks.index(sizes.warm)], looks[-1]
    return last.megabytes[name] / warm.megabytes[name], last.threads[name] / warm.threads[name]


def rows_of(looks: Mapping[str, Sequence[Look]], sizes: Sizes) -> Iterator[Row]:
    """A line for each look, then the growth."""
    for index, number in enumerate(sizes.looks):
        yield (f"{number:,}", *(round(own[index].megabytes[name]) for name, own in looks.items()))
    over = f"{sizes.looks[-1]:,} over {sizes.warm}"
    yield (over, *(round(growth(name, own, sizes)[0], 3) for name, own in looks.items()))
    yield ("threads", *(own[-1].threads[name] for name, own in looks.items()))


def bars_of(looks: Mapping[str, Sequence[Look]], sizes: Sizes) -> Iterator[Bar]:
    """How far the memory and the threads of each may have grown."""
    over = f"round {sizes.looks[-1]:,} over {sizes.warm}"
    for name, own in looks.items():
        memory, threads = growth(name, own, sizes)
        yield Bar(f"{name}: memory, {over}", memory, most=MOST_GROWTH)
        yield Bar(f"{name}: threads, {over}", threads, most=MOST_THREADS)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
