"""What a browser receives of a run: checked events, a stream of new ones, and a summary for the list of runs.

A line of a record may contain more than it should. Only the numbers, names and codes listed here pass. The one free
text is the reason for a failed round, which is the coordinator's own sentence of names and codes.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread

from wardround.console.runs import WatchedRun
from wardround.reports.event_file import Chunk, Position, last_lines, read_after
from wardround.text.plain_text import neutralise

__all__ = [
    "LineFilter",
    "RunSummary",
    "event_message",
    "filter_event",
    "filter_ledger_entry",
    "stream_events",
    "summarise",
]

LineFilter: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any] | None]
_Reader: TypeAlias = Callable[[Any], Any]
_State: TypeAlias = Literal["waiting", "running", "finished", "unreadable"]

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,63}")  # without spaces: a name or a code, never a sentence
_MOST_ITEMS = 5_000  # of a list or a table
_LONGEST_REASON = 400
_LARGEST = sys.float_info.max

_POLL_SECONDS = 0.5
_KEEP_ALIVE_SECONDS = 10.0  # a message is sent at least this often, so that both sides notice a lost connection
_RETRY_MILLISECONDS = 1000

_SUMMARY_BYTES = 32_768  # read at the end of a record; a list of hundreds of runs is read every few seconds


# Checked values: each reader returns an empty value for anything unexpected.


def _number(value: Any) -> int | float | None:
    """Return a number that JSON can express, otherwise None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
    return value if is_number else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _words(value: Any) -> list[str]:
    return [word for word in map(_word, value[:_MOST_ITEMS]) if word] if isinstance(value, list) else []


def _figures(value: Any) -> dict[str, int | float]:
    """Return numbers by name."""
    items = list(value.items())[:_MOST_ITEMS] if isinstance(value, dict) else []
    read = {_word(name): _number(figure) for name, figure in items}
    return {name: figure for name, figure in read.items() if name and figure is not None}


def _absences(value: Any) -> list[list[str]]:
    """Return rows of [site, absence, code]."""
    rows = value[:_MOST_ITEMS] if isinstance(value, list) else []
    return [[_word(cell) for cell in row] for row in rows if isinstance(row, list) and len(row) == 3 and _word(row[0])]


def _bytes_by_site(value: Any) -> dict[str, list[int | float]]:
    """Return [down, up] of each site over all steps, from {step: {site: [down, up, …]}}."""
    totals: dict[str, list[int | float]] = {}
    for sites in value.values() if isinstance(value, dict) else ():
        for name, costs in list(sites.items())[:_MOST_ITEMS] if isinstance(sites, dict) else ():
            down, up = map(_number, costs[:2]) if isinstance(costs, list) and len(costs) >= 2 else (None, None)
            known = totals.setdefault(_word(name), [0, 0])
            totals[_word(name)] = [known[0] + (down or 0), known[1] + (up or 0)]
    totals.pop("", None)
    return totals


def _reason(value: Any) -> str:
    return neutralise(value)[:_LONGEST_REASON] if isinstance(value, str) else ""


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
        "used": _figures,
        "votes": _figures,
        "rejected": lambda value: value is True,
        "notice": _reason,
        "down": _number,
        "up": _number,
        "seconds": _number,
        "exchanges": _bytes_by_site,
    },
    "asked": {"round": _number, "exchanges": _bytes_by_site},
    "scored": {"round": _number, "f1": _figures, "mean_f1": _number},
    "absent": {"step": _word, "round": _number, "site": _word, "absence": _word, "code": _word},
    "round_failed": {"round": _number, "reason": _reason, "exchanges": _bytes_by_site},
    "budget": {"round": _number, "reason": _reason},
    "diverged": {"round": _number, "sites": _words},
    "caught_up": {"round": _number, "sites": _words},
    "epoch": {
        "epoch": _number,
        "loss": _number,
        "dev_f1": _number,
        "best": lambda value: value is True,
        "seconds": _number,
    },
    "finished": {"rounds": _number, "best_round": _number, "f1": _figures},
}
# Without its number such an event has no place in a curve or a table.
_NUMBERED: Mapping[str, str] = {"round": "round", "scored": "round", "round_failed": "round", "epoch": "epoch"}
_LEDGER_ENTRY: Mapping[str, _Reader] = {"round": _number, "step": _word, "bytes": _number, "mechanism": _word}


def filter_event(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a browser receives of an event; for an unknown kind, its name and time."""
    kind = _word(event.get("event"))
    if not kind or (kind in _NUMBERED and _number(event.get(_NUMBERED[kind])) is None):
        return None
    shown = {"event": kind, "time": _number(event.get("time"))} | _read(event, _EVENTS.get(kind, {}))
    if kind == "finished":  # training at one site has an F1 for each matching mode of its task
        shown["scores"] = _figures({name: value for name, value in event.items() if name.endswith("_f1")})
    return shown


def filter_ledger_entry(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a browser receives of a ledger line: size and kind of a message, never its content."""
    shown = {"event": "sent", "time": _number(entry.get("time"))} | _read(entry, _LEDGER_ENTRY)
    return shown if shown["step"] and shown["bytes"] is not None else None


def _read(line: Mapping[str, Any], readers: Mapping[str, _Reader]) -> dict[str, Any]:
    """Return every field, empty if missing, so that a page need not check whether it is there."""
    return {name: reader(line.get(name)) for name, reader in readers.items()}


# Server-sent events.


async def stream_events(record: Path, position: Position, line_filter: LineFilter) -> AsyncIterator[str]:
    """Yield messages without end: the lines after `position`, then every new line.

    The first message is sent even if nothing is new.
    """
    yield f"retry: {_RETRY_MILLISECONDS}\n\n"
    sent = None  # time of the last message
    while True:
        try:
            chunk = await anyio.to_thread.run_sync(partial(read_after, record, position))
        except OSError:  # tried again later; the page keeps what it has
            chunk = Chunk((), position)
        is_new = chunk.position != position or chunk.restarted
        if is_new or sent is None or time.monotonic() - sent >= _KEEP_ALIVE_SECONDS:
            sent = time.monotonic()
            yield event_message(chunk, line_filter)
        else:
            await anyio.sleep(_POLL_SECONDS)
        position = chunk.position


def event_message(chunk: Chunk, line_filter: LineFilter) -> str:
    """Return one server-sent message; its id is the position after its lines, which a reconnecting browser sends."""
    events = [event for line in chunk.events if (event := line_filter(line)) is not None]
    body = {"now": round(time.time(), 3), "restarted": chunk.restarted, "events": events}
    data = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return f"id: {chunk.position}\ndata: {data}\n\n"


# The list of runs.


@dataclass(frozen=True)
class RunSummary:
    """The progress of a run; None is unknown."""

    state: _State = "waiting"
    number: int | None = None  # round or epoch
    f1: float | None = None  # the last mean over the sites on development notes
    time: float | None = None  # of the last line, in seconds since 1970


def summarise(run: WatchedRun) -> RunSummary:
    """Read the end of the run's record."""
    line_filter = filter_event if run.site is None else filter_ledger_entry
    try:
        lines = last_lines(run.record, limit=_SUMMARY_BYTES)
    except OSError:
        return RunSummary("unreadable")
    found = RunSummary()
    for line in lines:
        event = line_filter(line)
        if event is None:
            continue
        number = next((event[n] for n in ("round", "epoch", "rounds") if event.get(n) is not None), found.number)
        f1 = next((event[n] for n in ("mean_f1", "dev_f1") if event.get(n) is not None), found.f1)
        kind = event["event"]
        state: _State = "running"
        # The last message that leaves a site is its scores, in answer to `finish`.
        if kind == "finished" or (kind == "sent" and event["step"] == "finish"):
            state = "finished"
        elif kind in ("waiting", "gathered"):
            state = "waiting"
        found = RunSummary(state, number, f1, event["time"])
    return found
