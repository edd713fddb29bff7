"""What a run cost: bytes by exchange, direction and site; seconds by phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wardround.reports.history import Cost, Costs, History
from wardround.reports.tables import Cell, Row, Table

__all__ = ["COORDINATOR", "PHASES", "bytes_by_step", "bytes_table", "phase_of", "phase_seconds", "phase_table"]

_MOST_SITES = 12  # with a column each; of more, they are one
COORDINATOR = "coordinator"

# What each phase is, in the order of a round.
PHASES: Mapping[str, str] = {
    "train": "sites train, and under plain also weigh their updates",
    "seal": "sites clip, pack, mask and seal what they give",
    "send": "messages are written, carried and read",
    "combine": "the coordinator checks and adds what came",
    "open": "the sum is opened: at the coordinator, or at the sites, which then step",
    "step": "the coordinator does the rest of a round: it steps the shared half, or teaches the central model",
    "score": "sites score development and test notes",
    "keep": "sites are met, save their states, or take them up again",
    "in vain": "asked for, and no answer that counted",
}
_OF_STEP = {
    **dict.fromkeys(("submit", "unmask", "give", "reveal"), "seal"),
    **dict.fromkeys(("open_sum", "open_mean", "take"), "open"),
    **dict.fromkeys(("score", "finish"), "score"),
    **dict.fromkeys(("describe", "save", "restore", "share_copy", "take_copy"), "keep"),
}


def phase_of(step: str) -> str:
    """The phase in which a site works at a step; what an algorithm names itself is training."""
    return _OF_STEP.get(step, "train")


def bytes_table(costs: Costs, sites: Sequence[str]) -> Table:
    """Each exchange up and down, by site."""
    columns = _columns(sites)
    rows: list[Row] = []
    for step, found in costs.items():
        rows.append((step, "up", *_across({site: cost.up for site, cost in found.items()}, columns)))
        rows.append((step, "down", *_across({site: cost.down for site, cost in found.items()}, columns)))
    return Table(
        "Bytes by exchange, direction and site",
        ("exchange", "direction", *columns, "all"),
        tuple(rows),
        totals=tuple(("all", way, *_summed(row[2:] for row in rows if row[1] == way)) for way in ("up", "down")),
        note="Up is from the sites, down is to them; messages as they were encoded, counted where they pass the door.",
    )


def bytes_by_step(costs: Costs) -> dict[str, dict[str, float]]:
    """Megabytes up and down of each exchange, for a chart."""
    return {
        "up, from the sites": {step: sum(c.up for c in sites.values()) / 1e6 for step, sites in costs.items()},
        "down, to the sites": {step: sum(c.down for c in sites.values()) / 1e6 for step, sites in costs.items()},
    }


def phase_seconds(history: History) -> dict[str, dict[str, float]]:
    """By phase, the seconds of every site and of the coordinator."""
    found: dict[str, dict[str, float]] = {phase: {} for phase in PHASES}
    for who, phase, seconds in _spent(history):
        found[phase][who] = found[phase].get(who, 0.0) + seconds
    return {phase: spent for phase, spent in found.items() if spent}


def phase_table(history: History, sites: Sequence[str]) -> Table:
    """Phases down, sites and coordinator across."""
    columns = {**_columns(sites), COORDINATOR: (COORDINATOR,)}
    seconds = phase_seconds(history)
    rows: list[Row] = [(phase, *_across(spent, columns, zero=0.0)) for phase, spent in seconds.items()]
    told = "; ".join(f"{phase}: {PHASES[phase]}" for phase in seconds)
    return Table(
        "Seconds by phase",
        ("phase", *columns, "all"),
        tuple(rows),
        totals=(("all", *_summed(row[1:] for row in rows)),),
        note=f"{told}. Seconds of sites that work side by side are added; a site says itself how long it worked.",
    )


def _spent(history: History) -> Iterable[tuple[str, str, float]]:
    """Round by round, so that one without an answer is told from one with: who, phase, seconds."""
    for costs in (*(record.costs for record in history.rounds), history.beside):
        for step, sites in costs.items():
            for site, cost in sites.items():
                yield from ((site, phase, seconds) for phase, seconds in _parts(step, cost))
    for record in history.rounds:
        yield from ((COORDINATOR, phase, seconds) for phase, seconds in record.coordinator.items() if phase in PHASES)


def _parts(step: str, cost: Cost) -> Iterable[tuple[str, float]]:
    if not cost.worked:  # nobody answered, or it was not told
        yield ("in vain" if not cost.up else phase_of(step)), cost.seconds
        return
    yield phase_of(step), cost.worked
    yield "send", max(0.0, cost.seconds - cost.worked)


def _columns(sites: Sequence[str]) -> dict[str, Sequence[str]]:
    """Which sites a column is of."""
    return {site: (site,) for site in sites} if len(sites) <= _MOST_SITES else {f"{len(sites):,} sites": sites}


def _across(found: Mapping[str, float], columns: Mapping[str, Sequence[str]], *, zero: float = 0) -> list[float]:
    """By column, and of all; whole numbers stay whole."""
    cells = [sum((found.get(site, zero) for site in sites), zero) for sites in columns.values()]
    return [*cells, sum(found.values(), zero)]


def _summed(rows: Iterable[Row]) -> list[Cell]:
    return [sum(cell for cell in column if isinstance(cell, int | float)) for column in zip(*rows, strict=True)]
