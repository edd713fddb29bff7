"""The tracker protocol, and the numbers of an event as points of curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Points", "TrackedRun", "Tracker", "points_of"]

# The curve of each value of an event.
_ROUND_CURVES = {
    "loss": "loss",
    "up": "bytes/up",
    "down": "bytes/down",
    "seconds": "seconds",
    "answered": "sites/answered",
    "clipped": "clipped",
}
_EPOCH_CURVES = {"loss": "loss", "dev_f1": "f1/dev", "seconds": "seconds"}


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is given of a run: settings and its folder, never a path of notes."""

    study: str
    name: str  # of its folder
    folder: Path  # for files that a tracker writes on this machine
    settings: Mapping[str, str] = field(default_factory=dict)


class Tracker(Protocol):
    """Receives events in order."""

    @property
    def resume_id(self) -> str:
        """Return what identifies this tracker's run after a restart."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Add one event; it may be kept in memory until `flush`."""

    def flush(self) -> None:
        """Write everything that was added."""

    def close(self) -> None:
        """Release resources; this process adds no more events."""


@dataclass(frozen=True)
class Points:
    """One point each of several curves."""

    step: int  # round or epoch
    time: float  # seconds since 1970
    values: Mapping[str, float]


def points_of(event: Mapping[str, Any], *, last: int = 0) -> Points | None:
    """Return the points of an event, or None if it has none; `last` is the step to use if the event has none."""
    kind = event.get("event")
    step = next((event[name] for name in ("round", "epoch", "rounds") if isinstance(event.get(name), int)), last)
    values = {
        name: float(value)
        for name, value in _values(str(kind), event)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
    return Points(step, float(event.get("time", 0.0)), values) if values else None


def _values(kind: str, event: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if kind == "round":
        yield from ((curve, event.get(name)) for name, curve in _ROUND_CURVES.items())
        yield "sites/absent", len({row[0] for row in event.get("absent", [])})
        yield from ((f"figures/{name}", value) for name, value in event.get("figures", {}).items())
    elif kind == "epoch":
        yield from ((curve, event.get(name)) for name, curve in _EPOCH_CURVES.items())
    elif kind == "scored":
        yield "f1/mean", event.get("mean_f1")
        yield from ((f"f1/{site}", value) for site, value in event.get("f1", {}).items())
    elif kind == "finished":
        yield from ((f"test_f1/{site}", value) for site, value in event.get("f1", {}).items())
        yield from ((f"test/{name}", value) for name, value in event.items() if name.endswith("_f1"))
