"""The numbers of an event as points of curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Points", "points_of"]

# What an event has under the left name is the curve of the right one.
_OF_ROUND = {
    "loss": "loss",
    "up": "bytes/up",
    "down": "bytes/down",
    "seconds": "seconds",
    "answered": "sites/answered",
    "clipped": "clipped",
}
_OF_EPOCH = {"loss": "loss", "dev_f1": "f1/dev", "seconds": "seconds"}


@dataclass(frozen=True)
class Points:
    """One point each of several curves."""

    step: int  # round or epoch
    time: float  # seconds since 1970
    values: Mapping[str, float]


def points_of(event: Mapping[str, Any], *, last: int = 0) -> Points | None:
    """The points in an event, if any; `last` is the step of the point before, for an event that names none."""
    kind = event.get("event")
    step = next((event[name] for name in ("round", "epoch", "rounds") if isinstance(event.get(name), int)), last)
    values = {name: float(value) for name, value in _values(str(kind), event) if _is_number(value)}
    return Points(step, float(event.get("time", 0.0)), values) if values else None


def _values(kind: str, event: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if kind == "round":
        yield from ((curve, event.get(name)) for name, curve in _OF_ROUND.items())
        yield "sites/absent", len({row[0] for row in event.get("absent", [])})
        yield from ((f"figures/{name}", value) for name, value in event.get("figures", {}).items())
    elif kind == "epoch":
        yield from ((curve, event.get(name)) for name, curve in _OF_EPOCH.items())
    elif kind == "scored":
        yield "f1/mean", event.get("mean_f1")
        yield from ((f"f1/{site}", value) for site, value in event.get("f1", {}).items())
    elif kind == "finished":
        yield from ((f"test_f1/{site}", value) for site, value in event.get("f1", {}).items())
        yield from ((f"test/{name}", value) for name, value in event.items() if name.endswith("_f1"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
