"""A run in one line of the list: how far it is, from the end of its record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from wardround.console.runs import WatchedRun
from wardround.console.shown import shown_entry, shown_event
from wardround.reports.event_file import last_lines

__all__ = ["Summary", "summary_of"]

_NUMBERED = ("round", "epoch", "rounds")
_SCORES = ("mean_f1", "dev_f1")
_END = 32_768  # bytes; a list of hundreds of runs is read every few seconds
_State: TypeAlias = Literal["waiting", "running", "finished", "unreadable"]


@dataclass(frozen=True)
class Summary:
    """How far a run is; None is not known."""

    state: _State = "waiting"
    number: int | None = None  # round or epoch
    f1: float | None = None  # the last on development notes, mean over the sites
    time: float | None = None  # of the last line, in seconds since 1970


def summary_of(run: WatchedRun) -> Summary:
    """Read the end of the run's record; one that may not be read is said to be so."""
    shown = shown_event if run.site is None else shown_entry
    try:
        lines = last_lines(run.record, limit=_END)
    except OSError:
        return Summary("unreadable")
    return _summed(event for line in lines if (event := shown(line)) is not None)


def _summed(events: Iterable[Mapping[str, Any]]) -> Summary:
    found = Summary()
    for event in events:
        number = next((event[name] for name in _NUMBERED if event.get(name) is not None), found.number)
        f1 = next((event[name] for name in _SCORES if event.get(name) is not None), found.f1)
        found = Summary(_state(event), number, f1, event["time"])
    return found


def _state(event: Mapping[str, Any]) -> _State:
    kind = event["event"]
    # The last that leaves a site is its scores, in answer to `finish`.
    if kind == "finished" or (kind == "sent" and event["step"] == "finish"):
        return "finished"
    return "waiting" if kind in ("waiting", "gathered") else "running"
