"""What the engines add to the work itself.

A FedNER study in one process against a hand-written loop of the same mathematics; rounds of sites that do nothing
against Flower's simulation; exchanges over mutual TLS; memory and time with more and more sites.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from common import Bar, arguments, finish, peer_python, run_json

from wardround.reports.tables import Row, Table

PEERS = Path(__file__).parent / "peers"
FLOWER = "flwr[simulation]==1.41.0"
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # a benchmark tells nobody
SIZES = {"40 bytes": 10, "17.5 MB": 4_375_000}  # float32 numbers there and back
IDLE_SIZES = {"40 bytes": 10, "7.6 MB": 1_900_000, "17.5 MB": 4_375_000}  # the second is about FedNER's shared half
SIZES_OF = {"full": (30, (10, 100, 1000)), "quick": (8, (10, 100)), "smallest": (1, (2, 3))}  # rounds, sites
WARM_UP = 2  # rounds of every measurement that do not count: connections are made, processes started

NOTE = (
    "FedNER: 4 sites, peer a hand-written loop; idle: 4 sites, peer Flower; networked: 3 sites; last: ms a site asked"
)

MOST_OVERHEAD = 0.05
FURTHEST_APART = 1e-5  # of a shared parameter, between product and loop: otherwise it is not the same work
LEAST_OVER_FLOWER = 20.0
MOST_SECONDS = {"40 bytes": 0.05, "17.5 MB": 1.0}  # of a networked exchange with three sites
MOST_MEMORY = 1.25  # the largest study over the smallest
MOST_TIME = 1.5  # the same, a site asked


@dataclass(frozen=True)
class Part:
    """One measurement: rows of the table (what, ms, peer's ms, ratio, MB), figures for the JSON line, and its bars."""

    rows: Sequence[Row] = ()
    figures: Sequence[dict[str, Any]] = ()
    bars: Sequence[Bar] = ()


def main() -> int:
    """Measure and report."""
    asked = arguments(__doc__, smallest=True)
    rounds, sizes = SIZES_OF["smallest" if asked.smallest else "quick" if asked.quick else "full"]
    added = overhead(2 * rounds)
    parts = [added, flare(rounds), *(scale(work, sizes) for work in ("little", "fedner"))]
    if not asked.smallest:  # Flower may have to be installed first
        parts.insert(1, flower(rounds, added.figures[0]["added_s"]))
    columns = ("what", "ms", "peer ms", "ratio", "peak MB")
    table = Table("Engines", columns, tuple(row for part in parts for row in part.rows), note=NOTE)
    figures = [figure for part in parts for figure in part.figures]
    return finish("engine", table, figures, [bar for part in parts for bar in part.bars], check=asked.check)


def overhead(rounds: int) -> Part:
    """The in-process engine over a hand-written loop; each round of one against the same round of the other."""
    answer = run_json(sys.executable, PEERS / "fedner_overhead.py", {"warm_up": WARM_UP, "rounds": rounds})
    ours, loop = (median(side) for side in zip(*answer["seconds"], strict=True))
    ratio = median(product / by_hand for product, by_hand in answer["seconds"])
    added = max(median(product - by_hand for product, by_hand in answer["seconds"]), 1e-4)
    figure = {"part": "overhead", "ours_s": ours, "loop_s": loop, "ratio": ratio, "added_s": added}
    figure["apart"] = answer["apart"]
    what = f"FedNER round, {answer['megabytes']:.1f} MB"
    return Part(
        [(what, _ms(ours), _ms(loop), round(ratio, 3), None)],
        [figure],
        [
            Bar("overhead over a hand-written loop", ratio - 1, most=MOST_OVERHEAD),
            Bar("shared parameters of product and loop apart", answer["apart"], most=FURTHEST_APART),
        ],
    )


def flower(rounds: int, added: float) -> Part:
    """Rounds of four sites that do nothing, in our engine and in Flower's simulation.

    `added` is what our engine adds to a round of FedNER: it stands against Flower's round that carries as much.
    """
    request = {"sites": 4, "floats": list(IDLE_SIZES.values()), "rounds": WARM_UP + rounds}
    try:
        python = peer_python("flower", FLOWER)
    except (OSError, subprocess.CalledProcessError):
        return _missing("Flower", f"python3 -m venv .bench/flower && .bench/flower/bin/pip install '{FLOWER}'")
    os.environ |= QUIET
    theirs = _medians(run_json(python, PEERS / "flower_rounds.py", request))
    ours = _medians(run_json(sys.executable, PEERS / "our_rounds.py", request))
    rows, figures = [], []
    for size, our, their in zip(IDLE_SIZES, ours, theirs, strict=True):
        rows.append((f"idle round, {size}", _ms(our), _ms(their), round(their / our, 1), None))
        figures.append({"part": "flower", "size": size, "ours_s": our, "flower_s": their, "ratio": their / our})
    # An idle round of megabytes is copying, which nobody does twenty times as fast; it is shown and has no bar.
    bars = [
        Bar("times less overhead a round than Flower, 40 bytes", theirs[0] / ours[0], least=LEAST_OVER_FLOWER),
        Bar("times less added to a round of FedNER than Flower's round", theirs[1] / added, least=LEAST_OVER_FLOWER),
    ]
    rows.append(("added to FedNER's round", _ms(added), _ms(theirs[1]), round(theirs[1] / added, 1), None))
    return Part(rows, figures, bars)


def flare(rounds: int) -> Part:
    """Exchanges with three sites in processes of their own, over mutual TLS."""
    request = {"sites": 3, "floats": list(SIZES.values()), "rounds": WARM_UP + rounds}
    answer = run_json(sys.executable, PEERS / "flare_exchange.py", request)
    if "missing" in answer:
        return _missing(answer["missing"], "pip install 'wardround[flare]'")
    rows, figures, bars = [], [], []
    for size, seconds in zip(SIZES, _medians(answer), strict=True):
        rows.append((f"networked, {size}", _ms(seconds), None, None, None))
        figures.append({"part": "flare", "size": size, "seconds": seconds})
        bars.append(Bar(f"seconds of a networked exchange, {size}", seconds, most=MOST_SECONDS[size]))
    return Part(rows, figures, bars)


def scale(work: str, sizes: Sequence[int]) -> Part:
    """More and more sites, each size in a process of its own."""
    request = {"work": work}
    figures = [run_json(sys.executable, PEERS / "many_sites.py", request | {"sites": sites}) for sites in sizes]
    name = {"little": "idle sites", "fedner": "small FedNER"}[work]
    times, peaks = ([figure[key] for figure in figures] for key in ("milliseconds_a_site", "peak_mb"))
    rows = [
        (f"{name}, {sites:,}", round(time, 2), None, round(time / times[0], 2), round(peak))
        for sites, time, peak in zip(sizes, times, peaks, strict=True)
    ]
    sides = f"{name}, {sizes[-1]:,} over {sizes[0]}"
    bars = [
        Bar(f"peak memory, {sides}", peaks[-1] / peaks[0], most=MOST_MEMORY),
        Bar(f"time a site asked, {sides}", times[-1] / times[0], most=MOST_TIME),
    ]
    return Part(rows, [{"part": "scale", "work": work, **figure} for figure in figures], bars)


def _medians(answer: dict[str, Any]) -> list[float]:
    """Of each size, without the warm-up."""
    return [median(seconds[WARM_UP:]) for seconds in answer["seconds"]]


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 2)


def _missing(name: str, remedy: str) -> Part:
    print(f"{name} is not installed, its part is left out: {remedy}", file=sys.stderr)
    return Part([(f"{name}: not installed", None, None, None, None)])


if __name__ == "__main__":
    sys.exit(main())
