"""Who took part in which round: a map, and a row a site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from wardround.reports.history import History, RoundRecord
from wardround.reports.page import Drawing, Section
from wardround.reports.palette import FAILED, LATE, NOT_ASKED, REFUSED, TOOK_PART
from wardround.reports.plots import Labels, State, participation_map
from wardround.reports.tables import Row, Table

__all__ = ["attendance_section", "states_of"]

_STATES = (
    State("not asked", NOT_ASKED, "·"),
    State("gave", TOOK_PART, ""),
    State("late", LATE, "L"),
    State("failed", FAILED, "F"),
    State("refused", REFUSED, "R"),
)
_NUMBER = {state.name: number for number, state in enumerate(_STATES)}
_MOST_COLUMNS = 120  # of more rounds, several are one column


def attendance_section(history: History, sites: Sequence[str]) -> Section:
    """The map and the table; a run that did not note whom it asked has the table of absences alone."""
    if not any(record.asked for record in history.rounds):
        prose = "Whom a round asked is not on record in this run; those that gave nothing are."
        return Section("Who took part", prose, tables=(_absences(history.rounds),))
    tables = (_table(history.rounds, sites), *([_absences(history.rounds)] if _any_absent(history.rounds) else []))
    return Section("Who took part", tables=tables, drawings=(_map(history.rounds, sites),))


def states_of(record: RoundRecord, sites: Sequence[str]) -> dict[str, str]:
    """By site, whether it gave in the round; one that was absent from any of its exchanges did not."""
    gone = {absence.site: absence.kind for absence in record.absent}
    asked = record.asked
    told = {site: "gave" if site in asked else "not asked" for site in sites}
    return {site: gone.get(site, state) for site, state in told.items()}


def _map(rounds: Sequence[RoundRecord], sites: Sequence[str]) -> Drawing:
    width = -(-len(rounds) // _MOST_COLUMNS)
    by_round = [states_of(record, sites) for record in rounds]
    cells = {
        site: [_worst(states[site] for states in by_round[at : at + width]) for at in range(0, len(rounds), width)]
        for site in sites
    }
    plot = participation_map(cells, _STATES, Labels("Who took part in which round", "round", ""), width=width)
    each = "" if width == 1 else f" A column is {width} rounds; in it an absence is seen before a gift."
    counted = Counter(state for states in by_round for state in states.values())
    told = ", ".join(f"{state} {times:,} times" for state, times in counted.items())
    return Drawing.of(plot, "who-took-part", f"A row a site, a column a round.{each}", told=f"Sites by round: {told}.")


def _worst(states: Iterable[str]) -> int:
    return max(_NUMBER.get(state, _NUMBER["failed"]) for state in states)


def _table(rounds: Sequence[RoundRecord], sites: Sequence[str]) -> Table:
    by_round = [states_of(record, sites) for record in rounds]
    rows: list[Row] = []
    for site in sites:
        counted = Counter(states[site] for states in by_round)
        rows.append((site, len(rounds) - counted["not asked"], *(counted[state.name] for state in _STATES[1:])))
    columns = ("site", "rounds asked", *(state.name for state in _STATES[1:]))
    title = "Part of each site"
    return Table(f"{title} in {len(rounds):,} rounds", columns, tuple(rows), file=title)


def _any_absent(rounds: Sequence[RoundRecord]) -> bool:
    return any(record.absent for record in rounds)


def _absences(rounds: Sequence[RoundRecord]) -> Table:
    counted = Counter((gone.site, gone.kind, gone.code) for record in rounds for gone in record.absent)
    rows: tuple[Row, ...] = tuple((*gone, times) for gone, times in sorted(counted.items()))
    return Table("Absences", ("site", "absence", "code", "times"), rows or (("none", "", "", 0),))
