"""The overhead of the engines.

Four parts: a FedNER study in one process compared with a hand-written loop of the same mathematics; rounds of idle
sites compared with Flower's simulation; exchanges over mutual TLS; memory and time with more and more sites.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from statistics import median
from typing import Any

from common import Bar, Options, Part, arguments, finish, installed

from wardround.reports.tables import Row, Table

FLOWER = "flwr[simulation]==1.41.0"
NO_TELEMETRY = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
WARM_UP = 2  # rounds that do not count: connections are made, processes started
NOTE = (
    "FedNER: 4 sites, peer: a hand-written loop; idle: 4 sites, peer: Flower; networked: 3 sites; last rows: ms per "
    "request to a site"
)

MOST_OVERHEAD = 0.05
MOST_DIFFERENCE = 1e-5  # of a shared parameter in product and loop: beyond it the work is not the same
LEAST_OVER_FLOWER = 20.0
MOST_SECONDS = {"40 bytes": 0.05, "17.5 MB": 1.0}  # of a networked exchange with three sites
MOST_MEMORY = 1.25  # the largest study over the smallest
MOST_TIME = 1.5  # the same, per request to a site


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int
    scaling: tuple[int, ...]  # numbers of sites
    requests: int = 100  # in each scaling run at least, so that the smallest run is not dominated by chance
    networked_sites: int = 3
    networked_floats: tuple[int, ...] = (10, 4_375_000)  # 40 bytes and 17.5 MB each way
    idle_floats: tuple[int, ...] = (10, 1_900_000, 4_375_000)  # the second is about FedNER's shared half


SIZES = {
    "full": Size(30, (10, 100, 1000)),
    "quick": Size(8, (10, 100)),
    "smallest": Size(1, (2, 3), requests=3, networked_sites=1, networked_floats=(10, 1000), idle_floats=(10, 1000)),
}


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    size = SIZES[options.size]
    overhead = measure_overhead(options, 2 * size.rounds)
    parts = [overhead, measure_idle(options, size, added=overhead.figures[0]["added_s"])]
    if installed("nvflare", "pip install 'wardround[flare]'"):
        parts.append(measure_networked(options, size))
    parts += [measure_scaling(options, size, work) for work in ("idle", "fedner")]
    columns = ("what", "ms", "peer ms", "ratio", "peak MB")
    table = Table("Engines", columns, tuple(row for part in parts for row in part.rows), note=NOTE)
    figures = [figure for part in parts for figure in part.figures]
    return finish("engine", table, figures, [bar for part in parts for bar in part.bars], check=options.check)


def measure_overhead(options: Options, rounds: int) -> Part:
    """Compare each round of the in-process engine with the same round of a hand-written loop."""
    answer = options.run("fedner_overhead", {"warm_up": WARM_UP, "rounds": rounds})
    ours, loop = (median(side) for side in zip(*answer["seconds"], strict=True))
    ratio = median(product / by_hand for product, by_hand in answer["seconds"])
    added = max(median(product - by_hand for product, by_hand in answer["seconds"]), 1e-4)
    figure = {"part": "overhead", "ours_s": ours, "loop_s": loop, "ratio": ratio, "added_s": added}
    figure["apart"] = answer["apart"]
    return Part(
        [(f"FedNER round, {answer['megabytes']:.1f} MB", 1e3 * ours, 1e3 * loop, ratio, None)],
        [figure],
        [
            Bar("overhead over a hand-written loop", ratio - 1, most=MOST_OVERHEAD),
            Bar("shared parameters of product and loop apart", answer["apart"], most=MOST_DIFFERENCE),
        ],
    )


def measure_idle(options: Options, size: Size, *, added: float) -> Part:
    """Run rounds of four idle sites in our engine and in Flower's simulation.

    `added` is the overhead of our engine in a round of FedNER; it is compared with Flower's round of the same size.
    """
    request = {"sites": 4, "floats": size.idle_floats, "rounds": WARM_UP + size.rounds}
    ours = medians(options.run("our_rounds", request))
    theirs: list[float | None] = [None] * len(ours)
    if python := options.peer_python("flower", FLOWER):
        os.environ |= NO_TELEMETRY
        theirs = [*medians(options.run("flower_rounds", request, python=python))]
    rows: list[Row] = []
    figures, ratios = [], []
    for floats, our, their in zip(size.idle_floats, ours, theirs, strict=True):
        ratios.append(their and their / our)
        rows.append((f"idle round, {megabytes(floats)}", 1e3 * our, their and 1e3 * their, ratios[-1], None))
        figures.append(
            {"part": "idle", "size": megabytes(floats), "ours_s": our, "flower_s": their, "ratio": ratios[-1]}
        )
    if ratios[0] is None or theirs[1] is None:
        return Part(rows, figures)
    rows.append(("added to FedNER's round", 1e3 * added, 1e3 * theirs[1], theirs[1] / added, None))
    # An idle round of megabytes is a copy, which cannot be twenty times as fast; it is shown without a bar.
    bars = [
        Bar("times less overhead per round than Flower, 40 bytes", ratios[0], least=LEAST_OVER_FLOWER),
        Bar("times less added to a round of FedNER than Flower's round", theirs[1] / added, least=LEAST_OVER_FLOWER),
    ]
    return Part(rows, figures, bars)


def measure_networked(options: Options, size: Size) -> Part:
    """Exchange messages over mutual TLS with sites in processes of their own."""
    request = {"sites": size.networked_sites, "floats": size.networked_floats, "rounds": WARM_UP + size.rounds}
    rows: list[Row] = []
    figures, bars = [], []
    for floats, seconds in zip(size.networked_floats, medians(options.run("flare_exchange", request)), strict=True):
        name = megabytes(floats)
        rows.append((f"networked, {name}", 1e3 * seconds, None, None, None))
        figures.append({"part": "flare", "size": name, "seconds": seconds})
        if name in MOST_SECONDS:
            bars.append(Bar(f"seconds of a networked exchange, {name}", seconds, most=MOST_SECONDS[name]))
    return Part(rows, figures, bars)


def measure_scaling(options: Options, size: Size, work: str) -> Part:
    """Run studies with more and more sites, each in a process of its own."""
    request = {"work": work, "requests": size.requests}
    figures = [options.run("site_scaling", request | {"sites": sites}) for sites in size.scaling]
    name = {"idle": "idle sites", "fedner": "small FedNER"}[work]
    times, peaks = ([figure[key] for figure in figures] for key in ("milliseconds_a_site", "peak_mb"))
    rows: list[Row] = [
        (f"{name}, {sites:,}", time, None, time / times[0], round(peak))
        for sites, time, peak in zip(size.scaling, times, peaks, strict=True)
    ]
    compared = f"{name}, {size.scaling[-1]:,} over {size.scaling[0]}"
    bars = [
        Bar(f"peak memory, {compared}", peaks[-1] / peaks[0], most=MOST_MEMORY),
        Bar(f"time per request, {compared}", times[-1] / times[0], most=MOST_TIME),
    ]
    return Part(rows, [{"part": "scale", "work": work, **figure} for figure in figures], bars)


def medians(answer: dict[str, Any]) -> list[float]:
    """Return the median seconds of each message size, without the warm-up."""
    return [median(seconds[WARM_UP:]) for seconds in answer["seconds"]]


def megabytes(floats: int) -> str:
    """Return the size of so many float32 numbers."""
    return f"{4 * floats / 1e6:.1f} MB" if floats > 25_000 else f"{4 * floats:,} bytes"


if __name__ == "__main__":
    sys.exit(main())
