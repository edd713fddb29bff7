"""Peak memory must not grow with the number of sites: relation-extraction studies among more and more small hospitals.

A few sites work in a round, whatever the number of sites; every site is asked at the start and scored at the end. Each
study runs completely, in a process of its own. The comparison is the same study with a network built for each open
site. `--full` uses the real MiniLM and up to 1,000 sites (100 for the comparison) and takes about an hour.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from common import Bar, Options, arguments, finish

from wardround.models.encoders import MINILM
from wardround.reports.tables import Row, Table
from wardround.text.plain_text import size_text

SITES_PER_ROUND = 4
FEDED, FEDAVG, MOMENTS = "FedED", "FedAvg", "FedAvg, Adam state kept"
METHODS: dict[str, dict[str, Any]] = {
    FEDED: {"algorithm": "feded", "settings": {}},
    FEDAVG: {"algorithm": "fedavg", "settings": {"keep_moments": False}},
    MOMENTS: {"algorithm": "fedavg", "settings": {"keep_moments": True}},
}
NOTE = (
    f"{SITES_PER_ROUND} sites work in a round; own: a network for each open site; up: from one site in a round; "
    "disk: the run folder at the end"
)

MOST_GIGABYTES = 6.0  # with a hundred sites
MOST_GROWTH = 1.15  # of peak memory, the most sites over the fewest


@dataclass(frozen=True)
class Cell:
    """One study: its method, its number of sites, and whether the sites share one network."""

    method: str
    sites: int
    networks: Literal["shared", "own"] = "shared"

    def measure(self, encoder: str, options: Options) -> dict[str, Any]:
        """Run the study."""
        study = {**METHODS[self.method], "encoder": encoder, "sites": self.sites}
        study |= {"drawn": min(SITES_PER_ROUND, self.sites), "rounds": 2 if options.size == "smallest" else 3}
        return options.run("relation_study", {"study": study, "one_network": self.networks == "shared"})


Figures = dict[Cell, dict[str, Any]]
BOTH = (FEDED, FEDAVG)
SIZES = {
    "smallest": [Cell(FEDED, 2), Cell(FEDAVG, 2), Cell(FEDAVG, 3), Cell(FEDAVG, 2, "own")],
    "quick": [Cell(method, sites) for method in BOTH for sites in (10, 40)]
    + [Cell(method, 40, "own") for method in BOTH],
    "full": [Cell(method, sites) for method in BOTH for sites in (10, 100, 1000)]
    + [Cell(MOMENTS, sites) for sites in (10, 100)]
    + [Cell(method, sites, "own") for method in BOTH for sites in (10, 100)],
}


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, default="quick")
    encoder, cells = MINILM if options.size == "full" else "bert-tiny", SIZES[options.size]
    figures = {cell: cell.measure(encoder, options) for cell in cells}
    columns = ("study", "sites", "networks", "peak MB", "× shared", "s per round", "up", "disk MB")
    table = Table(f"Many sites, {encoder}", columns, tuple(sweep_row(cell, figures) for cell in cells), note=NOTE)
    listed = [vars(cell) | {"encoder": encoder} | figure for cell, figure in figures.items()]
    bars = [bar for method in BOTH for bar in bars_of(method, figures)]
    return finish("many_sites", table, listed, bars, check=options.check)


def sweep_row(cell: Cell, figures: Figures) -> Row:
    """Return one row of the table."""
    found, shared = figures[cell], figures[Cell(cell.method, cell.sites)]
    ratio = None if cell.networks == "shared" else round(found["peak_mb"] / shared["peak_mb"], 2)
    return (
        cell.method,
        cell.sites,
        cell.networks,
        round(found["peak_mb"]),
        ratio,
        round(found["seconds_a_round"], 2),
        size_text(round(found["bytes_up"])),
        round(found["disk_mb"]),
    )


def bars_of(method: str, figures: Figures) -> Iterator[Bar]:
    """Limit the memory with a hundred sites (or the most there are below), and its growth with the number of sites."""
    peaks = {
        cell.sites: figures[cell]["peak_mb"] for cell in figures if (cell.method, cell.networks) == (method, "shared")
    }
    few, some, most = min(peaks), max(sites for sites in peaks if sites <= 100), max(peaks)
    yield Bar(f"{method}: GB with {some} sites", peaks[some] / 1e3, most=MOST_GIGABYTES)
    yield Bar(f"{method}: peak memory, {most:,} sites over {few}", peaks[most] / peaks[few], most=MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
