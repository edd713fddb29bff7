"""What a browser is told of an event: numbers, names and codes that are listed here, and nothing else.

A line of a record may hold more than it should. Free text passes nowhere but in the reason for which a round failed,
which is the coordinator's own sentence of names and codes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from wardround.reports.plain_text import neutralise

__all__ = ["shown_entry", "shown_event"]

_Reader: TypeAlias = Callable[[Any], Any]

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,63}")  # no blank: a name or a code, never a sentence
_MOST = 5_000  # items of a list or a table
_LONGEST_REASON = 400
_LARGEST = sys.float_info.max


def _number(value: Any) -> int | float | None:
    """A number that JSON has a word for."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
    return value if known else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _words(value: Any) -> list[str]:
    return [word for word in map(_word, value[:_MOST]) if word] if isinstance(value, list) else []


def _figures(value: Any) -> dict[str, int | float]:
    """Names and their numbers."""
    named = list(value.items())[:_MOST] if isinstance(value, dict) else []
    read = {_word(name): _number(figure) for name, figure in named}
    return {name: figure for name, figure in read.items() if name and figure is not None}


def _absences(value: Any) -> list[list[str]]:
    """Of [site, absence, code]."""
    rows = value[:_MOST] if isinstance(value, list) else []
    return [[_word(cell) for cell in row] for row in rows if isinstance(row, list) and len(row) == 3 and _word(row[0])]


def _bytes_by_site(value: Any) -> dict[str, list[int | float]]:
    """Of exchanges, {step: {site: [down, up, …]}}: down and up of each site, over all steps."""
    totals: dict[str, list[int | float]] = {}
    for sites in value.values() if isinstance(value, dict) else ():
        for name, costs in list(sites.items())[:_MOST] if isinstance(sites, dict) else ():
            down, up = map(_number, costs[:2]) if isinstance(costs, list) and len(costs) >= 2 else (None, None)
            known = totals.setdefault(_word(name), [0, 0])
            totals[_word(name)] = [known[0] + (down or 0), known[1] + (up or 0)]
    totals.pop("", None)
    return totals


def _reason(value: Any) -> str:
    return neutralise(value)[:_LONGEST_REASON] if isinstance(value, str) else ""


def _truth(value: Any) -> bool:
    return value is True


_EVENTS: Mapping[str, Mapping[str, _Reader]] = {
    "waiting": {"least": _number, "sites": _number},
    "gathered": {"present": _words},
    "started": {"round": _number, "sites": _number, "examples": _number},
    "resumed": {"round": _number, "sites": _number},
    "round": {
        "round": _number,
        "loss": _number,
        "answered": _number,
        "absent": _absences,
        "clipped": _number,
        "figures": _figures,
        "down": _number,
        "up": _number,
        "seconds": _number,
        "exchanges": _bytes_by_site,
    },
    "asked": {"round": _number, "exchanges": _bytes_by_site},
    "scored": {"round": _number, "f1": _figures, "mean_f1": _number},
    "absent": {"step": _word, "round": _number, "site": _word, "absence": _word, "code": _word},
    "round_failed": {"round": _number, "reason": _reason, "exchanges": _bytes_by_site},
    "diverged": {"round": _number, "sites": _words},
    "caught_up": {"round": _number, "sites": _words},
    "epoch": {"epoch": _number, "loss": _number, "dev_f1": _number, "best": _truth, "seconds": _number},
    "finished": {"rounds": _number, "best_round": _number, "f1": _figures},
}
# Without its number such a line has no place in a curve or a table.
_NUMBERED: Mapping[str, str] = {"round": "round", "scored": "round", "round_failed": "round", "epoch": "epoch"}
_ENTRY: Mapping[str, _Reader] = {"round": _number, "step": _word, "bytes": _number, "mechanism": _word}


def shown_event(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """A line of a run's events; of a kind that is not known here, its name and time."""
    kind = _word(event.get("event"))
    if not kind or (kind in _NUMBERED and _number(event.get(_NUMBERED[kind])) is None):
        return None
    shown = {"event": kind, "time": _number(event.get("time"))} | _read(event, _EVENTS.get(kind, {}))
    if kind == "finished":  # at one site: an F1 for each reading of its task
        shown["scores"] = _figures({name: value for name, value in event.items() if name.endswith("_f1")})
    return shown


def shown_entry(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """A line of a site's ledger: what left, never what was in it."""
    shown = {"event": "sent", "time": _number(entry.get("time"))} | _read(entry, _ENTRY)
    return shown if shown["step"] and shown["bytes"] is not None else None


def _read(line: Mapping[str, Any], readers: Mapping[str, _Reader]) -> dict[str, Any]:
    """Every field, so that a page need not ask whether it is there; a reader makes an empty one of None."""
    return {name: reader(line.get(name)) for name, reader in readers.items()}
