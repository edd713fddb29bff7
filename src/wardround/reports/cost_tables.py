"""The cost of a run: bytes by exchange, direction and site, and seconds by phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wardround.reports.history import Costs, History
from wardround.reports.tables import Cell, Row, Table

__all__ = ["COORDINATOR", "PHASES", "bytes_table", "megabytes_by_step", "phase_of", "phase_seconds", "phase_table"]

_MOST_SITES = 12  # with a column each; more share one column
COORDINATOR = "coordinator"
_UNANSWERED = "unanswered"

# The phases in the order of a round.
PHASES: Mapping[str, str] = {
    "train": "sites train and, under plain, also weight their updates",
    "seal": "sites clip, pack, mask and encrypt their updates",
    "send": "messages are encoded, transferred and decoded",
    "combine": "the coordinator checks and adds the updates",
    "open": "the sum is opened at the coordinator, or at the sites, which then make the optimizer step",
    "step": "the coordinator makes the optimizer step of the shared layers, or trains the central model",
    "score": "sites score development and test notes",
    "keep": "sites join, and save or restore their states",
    _UNANSWERED: "requests without an answer that counted",
}
_PHASE_OF_STEP = {
    **dict.fromkeys(("submit", "unmask"), "seal"),
    **dict.fromkeys(("open_sum", "open_mean"), "open"),
    **dict.fromkeys(("score", "finish"), "score"),
    **dict.fromkeys(("describe", "save", "restore", "share_copy", "load_copy"), "keep"),
    **{"give": "seal", "reveal": "seal", "take": "open", "take_copy": "keep"},  # the names in runs of version 0.1
}


def phase_of(step: str) -> str:
    """Return the phase of a site's step; the steps that an algorithm defines are training."""
    return _PHASE_OF_STEP.get(step, "train")


def bytes_table(costs: Costs, sites: Sequence[str]) -> Table:
    """Return the bytes of each exchange up and down, by site."""
    columns = _site_columns(sites)
    rows: list[Row] = []
    for step, found in costs.items():
        rows.append((step, "up", *_across({site: cost.up for site, cost in found.items()}, columns)))
        rows.append((step, "down", *_across({site: cost.down for site, cost in found.items()}, columns)))
    return Table(
        "Bytes by exchange, direction and site",
        ("exchange", "direction", *columns, "all"),
        tuple(rows),
        totals=tuple(("all", way, *_sums(row[2:] for row in rows if row[1] == way)) for way in ("up", "down")),
        note="Up is from the sites, down is to the sites; sizes of encoded messages, counted where they are sent.",
    )


def megabytes_by_step(costs: Costs) -> dict[str, dict[str, float]]:
    """Return the megabytes of each exchange up and down, for a chart."""
    return {
        "up, from the sites": {step: sum(c.up for c in sites.values()) / 1e6 for step, sites in costs.items()},
        "down, to the sites": {step: sum(c.down for c in sites.values()) / 1e6 for step, sites in costs.items()},
    }


def phase_seconds(history: History) -> dict[str, dict[str, float]]:
    """Return the seconds of each phase by site, and of the coordinator."""
    found: dict[str, dict[str, float]] = {phase: {} for phase in PHASES}

    def add(phase: str, who: str, seconds: float) -> None:
        found[phase][who] = found[phase].get(who, 0.0) + seconds

    # Each round is counted separately, to tell requests without an answer from the others.
    for costs in (*(record.costs for record in history.rounds), history.other_costs):
        for step, sites in costs.items():
            for site, cost in sites.items():
                if cost.worked:
                    add(phase_of(step), site, cost.worked)
                    add("send", site, max(0.0, cost.seconds - cost.worked))
                else:  # no answer, or an answer without this figure
                    add(phase_of(step) if cost.up else _UNANSWERED, site, cost.seconds)
    for record in history.rounds:
        for phase, seconds in record.coordinator.items():
            if phase in PHASES:
                add(phase, COORDINATOR, seconds)
    return {phase: spent for phase, spent in found.items() if spent}


def phase_table(history: History, sites: Sequence[str]) -> Table:
    """Return the seconds by phase (rows) and site or coordinator (columns)."""
    columns = {**_site_columns(sites), COORDINATOR: (COORDINATOR,)}
    seconds = phase_seconds(history)
    rows: list[Row] = [(phase, *_across(spent, columns, zero=0.0)) for phase, spent in seconds.items()]
    phases = "; ".join(f"{phase}: {PHASES[phase]}" for phase in seconds)
    return Table(
        "Seconds by phase",
        ("phase", *columns, "all"),
        tuple(rows),
        totals=(("all", *_sums(row[1:] for row in rows)),),
        note=f"{phases}. Seconds of sites that work in parallel are added; each site reports how long it worked.",
    )


def _site_columns(sites: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the sites of each column."""
    return {site: (site,) for site in sites} if len(sites) <= _MOST_SITES else {f"{len(sites):,} sites": sites}


def _across(found: Mapping[str, float], columns: Mapping[str, Sequence[str]], *, zero: float = 0) -> list[float]:
    """Return the sum of each column, and of all; whole numbers stay integers."""
    cells = [sum((found.get(site, zero) for site in sites), zero) for sites in columns.values()]
    return [*cells, sum(found.values(), zero)]


def _sums(rows: Iterable[Row]) -> list[Cell]:
    return [sum(cell for cell in column if isinstance(cell, int | float)) for column in zip(*rows, strict=True)]
