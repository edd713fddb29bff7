"""Memory that does not grow with the number of sites: studies of relations among more and more small hospitals.

A few sites work in a round, whatever their number; all are asked at the beginning and scored at the end. Each study
runs whole, in a process of its own. The peer is the same study with a network built for each site that is open.
`--full` takes the real MiniLM and up to 1,000 sites, the peer up to 100, and about an hour.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common import Bar, finish, run_json

from wardround.models.encoders import MINILM
from wardround.reports.sizes import size_text
from wardround.reports.tables import Row, Table

PEER = Path(__file__).parent / "peers" / "relation_study.py"
DRAWN, ROUNDS = 4, 3
FEDED, FEDAVG, MOMENTS = "FedED", "FedAvg", "FedAvg, Adam remembers"
WAYS: dict[str, dict[str, Any]] = {
    FEDED: {"algorithm": "feded", "settings": {}},
    FEDAVG: {"algorithm": "fedavg", "settings": {"keep_moments": False}},
    MOMENTS: {"algorithm": "fedavg", "settings": {"keep_moments": True}},
}
NOTE = (
    f"{DRAWN} sites work in a round, {ROUNDS} rounds; own: a network for each open site; up: of a site in a round; "
    "disk: the run folder at the end"
)

MOST_GIGABYTES = 6.0  # with a hundred sites
MOST_GROWTH = 1.15  # of peak memory, the most sites over the fewest


@dataclass(frozen=True)
class Cell:
    """One study: how it learns, among how many sites, and who has the networks."""

    way: str
    sites: int
    networks: Literal["lent", "own"] = "lent"

    def measured(self, encoder: str) -> dict[str, Any]:
        """In a process of its own."""
        study = {**WAYS[self.way], "encoder": encoder, "sites": self.sites, "drawn": DRAWN, "rounds": ROUNDS}
        return run_json(sys.executable, PEER, {"study": study, "lent": self.networks == "lent"})


Figures = dict[Cell, dict[str, Any]]
QUICK = [Cell(way, sites) for way in (FEDED, FEDAVG) for sites in (10, 40)]
QUICK += [Cell(way, 40, "own") for way in (FEDED, FEDAVG)]
FULL = [Cell(way, sites) for way in (FEDED, FEDAVG) for sites in (10, 100, 1000)]
FULL += [Cell(MOMENTS, sites) for sites in (10, 100)]
FULL += [Cell(way, sites, "own") for way in (FEDED, FEDAVG) for sites in (10, 100)]


def main() -> int:
    """Measure and report."""
    asked = arguments()
    encoder, cells = (MINILM, FULL) if asked.full else ("bert-tiny", QUICK)
    figures = {cell: cell.measured(encoder) for cell in cells}
    columns = ("study", "sites", "networks", "peak MB", "× lent", "s a round", "up", "disk MB")
    table = Table(f"Many sites, {encoder}", columns, tuple(row_of(cell, figures) for cell in cells), note=NOTE)
    listed = [vars(cell) | {"encoder": encoder} | figure for cell, figure in figures.items()]
    bars = [bar for way in (FEDED, FEDAVG) for bar in bars_of(way, figures)]
    return finish("many_sites", table, listed, bars, check=asked.check)


def arguments() -> argparse.Namespace:
    """As of the other benchmarks, but small sizes are what it takes unless it is told otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="small sizes, as without it")
    sizes.add_argument("--full", action="store_true", help="MiniLM and up to 1,000 sites")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bar is missed")
    return parser.parse_args()


def row_of(cell: Cell, figures: Figures) -> Row:
    """One study in the table."""
    found, lent = figures[cell], figures[Cell(cell.way, cell.sites)]
    ratio = None if cell.networks == "lent" else round(found["peak_mb"] / lent["peak_mb"], 2)
    return (
        cell.way,
        cell.sites,
        cell.networks,
        round(found["peak_mb"]),
        ratio,
        round(found["seconds_a_round"], 2),
        size_text(round(found["bytes_up"])),
        round(found["disk_mb"]),
    )


def bars_of(way: str, figures: Figures) -> Iterator[Bar]:
    """Of the product: how much it takes with a hundred sites, or as many as there are, and how it grows."""
    lent = [cell for cell in figures if (cell.way, cell.networks) == (way, "lent")]
    peaks = {cell.sites: figures[cell]["peak_mb"] for cell in lent}
    few, some, most = min(peaks), max(sites for sites in peaks if sites <= 100), max(peaks)
    yield Bar(f"{way}: GB with {some} sites", peaks[some] / 1e3, most=MOST_GIGABYTES)
    yield Bar(f"{way}: peak memory, {most:,} sites over {few}", peaks[most] / peaks[few], most=MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
