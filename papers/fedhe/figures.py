"""Tables 2 and 3 and Figure 1 from what `overheads.py` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np
from papers.common.page import table
from papers.fedhe import published

from wardround.reports.plots import Curve, Labels, Plot, learning_curves

WAYS = {"bfv": "BFV", "bfv-compact": "BFV, compact", "ckks": "CKKS"}
_ACTS = ("seal", "open")
_NOTHING = "–"


def overhead_tables(overheads: Mapping[str, Any], titles: Mapping[str, str]) -> dict[str, str]:
    """Each table by the name of its markers; empty where nothing was measured."""
    networks: Mapping[str, Any] = overheads.get("networks", {})
    made = {"table2": sizes, "table3": times, "figure1": aggregation}
    return {name: make(networks, titles) if networks else "" for name, make in made.items()}


def sizes(networks: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Bytes of an update as it is, and sealed in each way."""
    rows = []
    for network, found in networks.items():
        plain = 4 * found["parameters"]
        sealed = [_size(found["ways"].get(way), plain) for way in WAYS]
        _, before, after = published.SIZES.get(network, (_NOTHING,) * 3)
        rows.append([titles[network], f"{found['parameters']:,}", _megabytes(plain), *sealed, before, after])
    columns = [*WAYS.values(), "published, plain", "published, FedHE"]
    return table(["network", "parameters", "plain, float32", *columns], rows)


def _size(cost: Mapping[str, Any] | None, plain: int) -> str:
    return _NOTHING if cost is None else f"{_megabytes(cost['bytes'])} ({cost['bytes'] / plain:.2f}×)"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def times(networks: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Mean, standard deviation and 99th percentile, as the paper has them."""
    rows = []
    for network, found in networks.items():
        for way, cost in found["ways"].items():
            cells = [cell for act in _ACTS for cell in _summary(cost[act])]
            rows.append([titles[network], WAYS[way], str(len(cost["seal"])), *cells])
        if network in published.TIMES:
            theirs = [f"{figure:.3f}" for act in _ACTS for figure in published.TIMES[network][act]]
            rows.append([titles[network], "published", _NOTHING, *theirs])
    figures = [f"{act}, {figure}" for act in ("encrypt", "decrypt") for figure in ("mean", "sd", "99th")]
    return table(["network", "way", "times", *figures], rows)


def _summary(seconds: Sequence[float]) -> list[str]:
    deviation = f"{stdev(seconds):.3f}" if len(seconds) > 1 else _NOTHING
    return [f"{mean(seconds):.3f}", deviation, f"{float(np.percentile(seconds, 99)):.3f}"]


def aggregation(networks: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Seconds and peak memory of the coordinator by number of clients."""
    rows = []
    for network, found in networks.items():
        by_way = {way: {p["clients"]: p for p in points} for way, points in found["aggregation"].items()}
        said = dict(published.AGGREGATION.get(network, ()))
        for clients in sorted({clients for points in by_way.values() for clients in points}):
            cells = [_point(by_way.get(way, {}).get(clients)) for way in WAYS]
            rows.append([titles[network], str(clients), *cells, said.get(clients, _NOTHING)])
    shown = table(["network", "clients", *WAYS.values(), "published"], rows)
    return f"{shown}\n\n{pictures('figure1-seconds', 'figure1-memory')}" if rows else ""


def pictures(*names: str) -> str:
    """Markdown of plots beside the page."""
    return "\n".join(f"![{name}]({name}.svg)" for name in names)


def _point(point: Mapping[str, Any] | None) -> str:
    return _NOTHING if point is None else f"{point['seconds']:.1f} s, {point['peak_mb']:,} MB"


def plots(overheads: Mapping[str, Any], titles: Mapping[str, str]) -> dict[str, Plot]:
    """Both panels of Figure 1, where they were measured."""
    seconds, memory = (_curves(overheads, titles, figure) for figure in ("seconds", "peak_mb"))
    if not seconds:
        return {}
    return {
        "figure1-seconds": learning_curves(seconds, Labels("Adding sealed updates", "clients", "seconds")),
        "figure1-memory": learning_curves(memory, Labels("Memory of the coordinator", "clients", "peak, MB")),
    }


def _curves(overheads: Mapping[str, Any], titles: Mapping[str, str], figure: str) -> dict[str, Curve]:
    return {
        f"{titles[network]}, {WAYS[way]}": [(point["clients"], point[figure]) for point in points]
        for network, found in overheads.get("networks", {}).items()
        for way, points in found["aggregation"].items()
    }
