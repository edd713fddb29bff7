"""Learning curves, bars with intervals, stacked bars, a confusion map and an attendance map, as SVG and PNG.

Colours are Okabe-Ito's; line styles, markers and hatching tell series apart where a printer has no colour. The same
data gives the same bytes. Nothing here touches pyplot, so no window and no global figure can be left behind.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.typing import RcKeyType
from numpy.typing import NDArray

from wardround.evaluation.entity_scores import Confusion
from wardround.evaluation.significance import Interval
from wardround.reports.palette import SERIES, ink_on
from wardround.reports.plain_text import neutralise
from wardround.reports.x_scale import Along, count_in_steps, give_x_scale

__all__ = [
    "Band",
    "Curve",
    "Labels",
    "Plot",
    "State",
    "attendance_map",
    "bar_chart",
    "confusion_map",
    "learning_curves",
    "stacked_bars",
]

Curve: TypeAlias = Sequence[tuple[float, float]]  # (epoch, round, amount or choice; score)
Band: TypeAlias = Sequence[tuple[float, float, float]]  # (the same; low, high)

_MOST_UPRIGHT = 12  # groups of bars whose names fit side by side
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
_STYLE: dict[RcKeyType, object] = {
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10.0,
    "grid.color": "#d0d0d0",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "wardround",
    "text.parse_math": False,  # a dollar sign in a type's name is a dollar sign
}


@dataclass(frozen=True, slots=True)
class Labels:
    """What is written around a plot."""

    title: str
    x: str
    y: str
    series: str = ""  # above the legend: what tells series apart


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """A drawn figure, to be written in either format."""

    figure: Figure

    def to_svg(self) -> str:
        """An `<svg>` element without prolog, date or maker."""
        stream = io.StringIO()
        with _style():
            self.figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        text = stream.getvalue()
        return text[text.index("<svg") :]

    def to_png(self, *, dpi: int = 150) -> bytes:
        """A PNG image."""
        stream = io.BytesIO()
        with _style():
            self.figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
        return stream.getvalue()


def learning_curves(
    series: Mapping[str, Curve],
    labels: Labels,
    *,
    bands: Mapping[str, Band] | None = None,
    along: Along | None = None,
) -> Plot:
    """One line a named series, of those that have one a band around it; `along` says what is below them."""
    with _style():
        figure, axes = _axes(labels)
        for number, (name, curve) in enumerate(series.items()):
            if bands and bands.get(name):
                xs, lows, highs = zip(*bands[name], strict=True)
                axes.fill_between(xs, lows, highs, color=SERIES[number % len(SERIES)], alpha=0.12, linewidth=0)
            axes.plot(
                [x for x, _ in curve],
                [y for _, y in curve],
                label=_label(name),
                color=SERIES[number % len(SERIES)],
                linestyle=_LINES[number % len(_LINES)],
                marker=_MARKERS[number % len(_MARKERS)],
                markersize=4,
                markevery=max(1, len(curve) // 12),
            )
        give_x_scale(axes, [x for curve in series.values() for x, _ in curve], along)
        _give_scale(axes)
        _add_legend(figure, len(series), labels.series)
    return _finished(figure)


def bar_chart(methods: Mapping[str, Mapping[str, float | Interval]], labels: Labels) -> Plot:
    """A group of bars for each site, a bar for each method; an `Interval` gives an error bar, an absent site a gap.

    Bars of many groups lie, named at the left, so that no name is written over another.
    """
    sites = list(dict.fromkeys(site for scores in methods.values() for site in scores))
    lying = len(sites) > _MOST_UPRIGHT
    with _style():
        figure, axes = _lying_axes(labels, len(sites), len(methods)) if lying else _axes(labels)
        for number, (name, scores) in enumerate(methods.items()):
            shift = (number - (len(methods) - 1) / 2) * 0.8 / len(methods)
            present = {place + shift: _interval(scores[site]) for place, site in enumerate(sites) if site in scores}
            look = _Look(0.8 / len(methods), _label(name), SERIES[number % len(SERIES)], _hatch(number))
            _draw_bars(axes, present, look, lying=lying)
        _give_scale(axes, "x" if lying else "y")
        (_name_rows if lying else _name_groups)(axes, sites)
        _add_legend(figure, len(methods), labels.series)
    return _finished(figure)


@dataclass(frozen=True, slots=True)
class _Look:
    """Of the bars of one method."""

    width: float
    label: str
    colour: str
    hatch: str


def _draw_bars(axes: Axes, scores: Mapping[float, Interval], look: _Look, *, lying: bool) -> None:
    draw, ends, cap = (axes.barh, "xerr", 1.5) if lying else (axes.bar, "yerr", 2.5)
    errors: dict[str, Any] = {ends: _error_bars(list(scores.values()))}
    draw(
        list(scores),
        [score.estimate for score in scores.values()],
        look.width,
        **errors,
        error_kw={"elinewidth": 1.0, "capsize": cap},
        label=look.label,
        color=look.colour,
        hatch=look.hatch,
        edgecolor="white",
    )


def stacked_bars(parts: Mapping[str, Mapping[str, float]], labels: Labels) -> Plot:
    """A bar for each name, in it a part for each kind, one on the other from the left; named at the left."""
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    with _style():
        figure, axes = _axes(labels, height=1.5 + 0.38 * len(names))
        _rule_across(axes)
        ends = dict.fromkeys(names, 0.0)
        for number, (kind, part) in enumerate(parts.items()):
            axes.barh(
                range(len(names)),
                [part.get(name, 0.0) for name in names],
                left=[ends[name] for name in names],
                label=_label(kind),
                color=SERIES[number % len(SERIES)],
                hatch=_hatch(number),
                edgecolor="white",
            )
            ends = {name: end + part.get(name, 0.0) for name, end in ends.items()}
        axes.set_xlim(left=0.0)  # else a part too small to be seen would move the beginning away from zero
        _name_rows(axes, names)
        _add_legend(figure, len(parts), labels.series)
    return _finished(figure)


@dataclass(frozen=True, slots=True)
class State:
    """One of those that a cell of an attendance map can be in."""

    name: str
    colour: str
    letter: str  # in the cell, where it is large enough


def attendance_map(
    cells: Mapping[str, Sequence[int]], states: Sequence[State], labels: Labels, *, width: int = 1
) -> Plot:
    """A row a name, a column so many rounds; each cell is the number of its state."""
    table = np.array(list(cells.values()), dtype=np.int64)
    rows, columns = table.shape
    with _style():
        figure, axes = _axes(labels, height=1.5 + min(0.3 * rows, 8.0))
        axes.grid(visible=False)
        axes.imshow(
            table,
            cmap=ListedColormap([state.colour for state in states]),
            vmin=-0.5,
            vmax=len(states) - 0.5,
            aspect="auto",
            interpolation="nearest",
            extent=(0.5, columns * width + 0.5, rows - 0.5, -0.5),  # the first round is 1
        )
        shown = range(0, rows, max(1, rows // 24))
        axes.set_yticks(shown, [neutralise(list(cells)[row]) for row in shown])
        count_in_steps(axes)
        for edge in range(1, rows if rows <= 24 else 0):
            axes.axhline(edge - 0.5, color="white", linewidth=1.5)
        if rows <= 24 and columns <= 40:
            _write_letters(axes, table, states, width)
        present = [states[number] for number in sorted({int(cell) for cell in table.flat})]
        patches = [Patch(facecolor=state.colour, edgecolor="#808080", label=_told(state)) for state in present]
        figure.legend(handles=patches, loc="outside lower center", ncols=min(len(patches), 3))
    return _finished(figure)


def confusion_map(confusion: Confusion, *, title: str = "Types taken for another") -> Plot:
    """Counts of gold types (rows) by predicted types (columns); the darker, the larger the part of its row."""
    rows = np.array(confusion.rows(), dtype=np.float64)
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    types = [neutralise(type_) for type_ in confusion.types]
    with _style():
        figure, axes = _axes(Labels(title, "predicted", "gold"), size=1.8 + 0.55 * len(rows))
        axes.grid(visible=False)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(rows)), [*types, "missed"], rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(rows)), [*types, "spurious"])
        for edge in (axes.axhline, axes.axvline):  # what has no counterpart is set apart
            edge(len(types) - 0.5, color="black", linewidth=1)
        _write_counts(axes, rows, shares)
    return _finished(figure)


@contextmanager
def _style() -> Iterator[None]:
    """Our settings alone, whatever a person's matplotlibrc says."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A letter the font lacks is drawn as a box; that is no reason to stop a report.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _finished(figure: Figure) -> Plot:
    """The plot with its layout settled: constrained layout starts from the last one, so each drawing would differ."""
    with _style():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return Plot(figure)


def _axes(labels: Labels, *, size: float | None = None, height: float = 3.8) -> tuple[Figure, Axes]:
    """Small in inches, so that letters stay legible where a phone shrinks the picture."""
    figure = Figure(figsize=(5.6, height) if size is None else (size, size), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(neutralise(labels.title), loc="left", fontsize=11)
    axes.set_xlabel(neutralise(labels.x))
    axes.set_ylabel(neutralise(labels.y))
    return figure, axes


def _lying_axes(labels: Labels, groups: int, methods: int) -> tuple[Figure, Axes]:
    """As high as the names of all groups and the bars in each need."""
    turned = Labels(labels.title, labels.y, labels.x)
    figure, axes = _axes(turned, height=1.5 + groups * min(max(0.22, 0.12 * methods), 0.6))
    _rule_across(axes)
    return figure, axes


def _rule_across(axes: Axes) -> None:
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")


def _hatch(number: int) -> str:
    """Shifted once all colours were used, so that the first and the eighth differ."""
    return _HATCHES[(number + number // len(SERIES)) % len(_HATCHES)]


def _give_scale(axes: Axes, along: Literal["x", "y"] = "y") -> None:
    """Where all is zero there is a scale from it, and none of thousandths around it."""
    low, high = axes.dataLim.intervalx if along == "x" else axes.dataLim.intervaly
    if high <= 0 <= low:
        (axes.set_xlim if along == "x" else axes.set_ylim)(0.0, 1.0)


def _label(name: str) -> str:
    """A name for the legend, which would leave out one that begins with an underscore."""
    return neutralise(f" {name}" if name.startswith("_") else name)


def _add_legend(figure: Figure, entries: int, title: str) -> None:
    """As many beside one another as fit."""
    most = 2 if entries == 4 else min(entries, 3)
    for columns in range(most if entries > 1 else 0, 0, -1):
        legend = figure.legend(loc="outside lower center", ncols=columns, title=neutralise(title) or None)
        figure.draw_without_rendering()
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _interval(score: float | Interval) -> Interval:
    return score if isinstance(score, Interval) else Interval(score, score, score)


def _error_bars(scores: Sequence[Interval]) -> list[list[float]] | None:
    # A percentile interval of very few documents can lie wholly to one side of the estimate.
    below = [max(0.0, score.estimate - score.low) for score in scores]
    above = [max(0.0, score.high - score.estimate) for score in scores]
    return [below, above] if any(below) or any(above) else None


def _name_groups(axes: Axes, names: Sequence[str]) -> None:
    crowded = sum(len(name) for name in names) > 50
    axes.set_xticks(
        range(len(names)),
        [neutralise(name) for name in names],
        rotation=30 if crowded else 0,
        ha="right" if crowded else "center",
        rotation_mode="anchor",
    )


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """From the top, without more space above the first and below the last than between two."""
    axes.set_yticks(range(len(names)), [neutralise(name) for name in names])
    axes.set_ylim(max(1, len(names)) - 0.5, -0.5)


def _told(state: State) -> str:
    return f"{state.letter} {state.name}".strip()


def _write_letters(axes: Axes, table: NDArray[np.int64], states: Sequence[State], width: int) -> None:
    for (row, column), number in np.ndenumerate(table):
        state, x = states[int(number)], column * width + (width + 1) / 2
        axes.text(x, row, state.letter, ha="center", va="center", color=ink_on(state.colour), fontsize=8)


def _write_counts(axes: Axes, rows: NDArray[np.float64], shares: NDArray[np.float64]) -> None:
    for (row, column), count in np.ndenumerate(rows):
        if count:
            ink = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{int(count):,}", ha="center", va="center", color=ink, fontsize=9)
