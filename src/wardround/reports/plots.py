"""Learning curves, bars with intervals, stacked bars, a confusion map and a participation map, as SVG and PNG.

Colours are Okabe-Ito's; line styles, markers and hatching distinguish series in black and white. The same data gives
the same bytes. Nothing here uses pyplot, so no window and no global figure can be left behind.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from wardround.evaluation.entity_scores import Confusion
from wardround.evaluation.significance import Interval
from wardround.text.palette import SERIES, ink_on
from wardround.text.plain_text import neutralise

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType  # Matplotlib 3.10 and earlier do not have it

__all__ = [
    "Band",
    "Curve",
    "Labels",
    "Plot",
    "State",
    "XKind",
    "bar_chart",
    "confusion_map",
    "learning_curves",
    "participation_map",
    "stacked_bars",
]

Curve: TypeAlias = Sequence[tuple[float, float]]  # (x, score)
Band: TypeAlias = Sequence[tuple[float, float, float]]  # (x, low, high)
# What x is: rounds and epochs; megabytes and seconds; learning rates and shares.
XKind: TypeAlias = Literal["steps", "amounts", "choices"]

_MOST_UPRIGHT = 12  # groups of bars whose names fit side by side
_LOG_RATIO = 10  # of the largest to the smallest value, from which an axis may be logarithmic
_TICK_ANGLE = 45  # degrees
_TICK_SPACING = 1.1  # distance of slanted tick labels, in heights of a label
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
_LEGEND_SHARE = 0.35  # of the height of a figure, which a legend may take from the axes
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
    "text.parse_math": False,  # a dollar sign in the name of a type is only a dollar sign
}


@dataclass(frozen=True, slots=True)
class Labels:
    """The title, axis labels and legend title of a plot."""

    title: str
    x: str
    y: str
    series: str = ""  # the title of the legend


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """A figure that can be written as SVG or PNG."""

    figure: Figure

    def to_svg(self) -> str:
        """Return an `<svg>` element without prolog, date or creator."""
        stream = io.StringIO()
        with _style():
            self.figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        text = stream.getvalue()
        return text[text.index("<svg") :]

    def to_png(self, *, dpi: int = 150) -> bytes:
        """Return a PNG image."""
        stream = io.BytesIO()
        with _style():
            self.figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
        return stream.getvalue()


def learning_curves(
    series: Mapping[str, Curve],
    labels: Labels,
    *,
    bands: Mapping[str, Band] | None = None,
    x_kind: XKind | None = None,
) -> Plot:
    """Draw one line per series, with a band around those that have one.

    Without `x_kind`, whole numbers on the x axis are steps and others are choices.
    """
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
        values = {x for curve in series.values() for x, _ in curve}
        x_kind = x_kind or ("steps" if all(float(value).is_integer() for value in values) else "choices")
        if x_kind == "steps":
            _set_integer_ticks(axes)
        elif x_kind == "choices" and values:
            _name_choices(axes, sorted(values))
        _set_scale_if_all_zero(axes)
        _add_legend(figure, len(series), labels.series)
    return _finish(figure)


def bar_chart(methods: Mapping[str, Mapping[str, float | Interval]], labels: Labels) -> Plot:
    """Draw one group of bars per site, one bar per method; an `Interval` has an error bar, a missing site a gap.

    With many groups the bars are horizontal, so that names do not overlap.
    """
    sites = list(dict.fromkeys(site for scores in methods.values() for site in scores))
    intervals = {
        name: {site: s if isinstance(s, Interval) else Interval(s, s, s) for site, s in scores.items()}
        for name, scores in methods.items()
    }
    horizontal = len(sites) > _MOST_UPRIGHT
    with _style():
        if horizontal:
            swapped = Labels(labels.title, labels.y, labels.x)
            figure, axes = _axes(swapped, height=1.5 + len(sites) * min(max(0.22, 0.12 * len(methods)), 0.6))
            _grid_along_x(axes)
        else:
            figure, axes = _axes(labels)
        draw, errors, cap = (axes.barh, "xerr", 1.5) if horizontal else (axes.bar, "yerr", 2.5)
        for number, (name, scores) in enumerate(intervals.items()):
            shift = (number - (len(methods) - 1) / 2) * 0.8 / len(methods)
            present = {place + shift: scores[site] for place, site in enumerate(sites) if site in scores}
            # With very few documents a percentile interval can lie on one side of the estimate.
            below = [max(0.0, score.estimate - score.low) for score in present.values()]
            above = [max(0.0, score.high - score.estimate) for score in present.values()]
            error_bars: dict[str, Any] = {errors: [below, above] if any(below) or any(above) else None}
            draw(
                list(present),
                [score.estimate for score in present.values()],
                0.8 / len(methods),
                **error_bars,
                error_kw={"elinewidth": 1.0, "capsize": cap},
                label=_label(name),
                color=SERIES[number % len(SERIES)],
                hatch=_hatch(number),
                edgecolor="white",
            )
        _set_scale_if_all_zero(axes, "x" if horizontal else "y")
        (_name_rows if horizontal else _name_groups)(axes, sites)
        _add_legend(figure, len(methods), labels.series)
    return _finish(figure)


def stacked_bars(parts: Mapping[str, Mapping[str, float]], labels: Labels) -> Plot:
    """Draw one horizontal bar per name, made of one part per kind."""
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    with _style():
        figure, axes = _axes(labels, height=1.5 + 0.38 * len(names))
        _grid_along_x(axes)
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
        axes.set_xlim(left=0.0)  # otherwise a part too small to be seen would move the axis away from zero
        _name_rows(axes, names)
        _add_legend(figure, len(parts), labels.series)
    return _finish(figure)


@dataclass(frozen=True, slots=True)
class State:
    """A state that a cell of a participation map can have."""

    name: str
    colour: str
    letter: str  # shown in the cell if there is room


def participation_map(
    cells: Mapping[str, Sequence[int]], states: Sequence[State], labels: Labels, *, width: int = 1
) -> Plot:
    """Draw one row per name and one column per `width` rounds; each cell is the index of its state."""
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
        _set_integer_ticks(axes)
        for edge in range(1, rows if rows <= 24 else 0):
            axes.axhline(edge - 0.5, color="white", linewidth=1.5)
        if rows <= 24 and columns <= 40:
            for (row, column), number in np.ndenumerate(table):
                state, x = states[int(number)], column * width + (width + 1) / 2
                axes.text(x, row, state.letter, ha="center", va="center", color=ink_on(state.colour), fontsize=8)
        present = [states[number] for number in sorted({int(cell) for cell in table.flat})]
        patches = [
            Patch(facecolor=state.colour, edgecolor="#808080", label=f"{state.letter} {state.name}".strip())
            for state in present
        ]
        figure.legend(handles=patches, loc="outside lower center", ncols=min(len(patches), 3))
    return _finish(figure)


def confusion_map(confusion: Confusion, *, title: str = "Confused types") -> Plot:
    """Draw counts of gold types (rows) by predicted types (columns), darker for a larger share of the row."""
    rows = np.array(confusion.rows(), dtype=np.float64)
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    types = [neutralise(type_) for type_ in confusion.types]
    with _style():
        figure, axes = _axes(Labels(title, "predicted", "gold"), size=1.8 + 0.55 * len(rows))
        axes.grid(visible=False)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(rows)), [*types, "missed"], rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(rows)), [*types, "spurious"])
        for edge in (axes.axhline, axes.axvline):  # separate mentions without a counterpart
            edge(len(types) - 0.5, color="black", linewidth=1)
        for (row, column), count in np.ndenumerate(rows):
            if count:
                ink = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, f"{int(count):,}", ha="center", va="center", color=ink, fontsize=9)
    return _finish(figure)


@contextmanager
def _style() -> Iterator[None]:
    """Apply our settings only, ignoring the user's matplotlibrc."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box; it must not stop a report.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _finish(figure: Figure) -> Plot:
    """Fix the layout: constrained layout starts from the previous one, so each drawing would differ."""
    with _style():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return Plot(figure)


def _axes(labels: Labels, *, size: float | None = None, height: float = 3.8) -> tuple[Figure, Axes]:
    """Create axes that are small in inches, so that text stays legible on a phone."""
    figure = Figure(figsize=(5.6, height) if size is None else (size, size), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(neutralise(labels.title), loc="left", fontsize=11)
    axes.set_xlabel(neutralise(labels.x))
    axes.set_ylabel(neutralise(labels.y))
    return figure, axes


def _grid_along_x(axes: Axes) -> None:
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")


def _hatch(number: int) -> str:
    """Return a hatch; shifted once all colours are used, so that the first and the eighth series differ."""
    return _HATCHES[(number + number // len(SERIES)) % len(_HATCHES)]


def _set_scale_if_all_zero(axes: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Scale from 0 to 1 if all values are zero; matplotlib would choose thousandths around zero."""
    low, high = axes.dataLim.intervalx if axis == "x" else axes.dataLim.intervaly
    if high <= 0 <= low:
        (axes.set_xlim if axis == "x" else axes.set_ylim)(0.0, 1.0)


def _label(name: str) -> str:
    """Return a legend label; matplotlib would omit one that starts with an underscore."""
    return neutralise(f" {name}" if name.startswith("_") else name)


def _add_legend(figure: Figure, entries: int, title: str) -> None:
    """Add a legend with as many columns as fit; a long one makes the figure taller, so the axes keep their room."""
    most = 2 if entries == 4 else min(entries, 3)
    for columns in range(most if entries > 1 else 0, 0, -1):
        legend = figure.legend(loc="outside lower center", ncols=columns, title=neutralise(title) or None)
        box = legend.get_window_extent()
        if columns == 1 or box.width <= figure.bbox.width:
            excess = box.height - _LEGEND_SHARE * figure.bbox.height
            figure.set_figheight(figure.get_figheight() + max(0.0, excess) / figure.dpi)
            figure.draw_without_rendering()
            return
        legend.remove()


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
    """Name the rows from the top, with equal space above the first and below the last."""
    axes.set_yticks(range(len(names)), [neutralise(name) for name in names])
    axes.set_ylim(max(1, len(names)) - 0.5, -0.5)


def _set_integer_ticks(axes: Axes) -> None:
    """Put ticks at whole numbers in steps of 1, 2, 5 or 10, even if there is a single one."""
    axes.xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def _name_choices(axes: Axes, values: Sequence[float]) -> None:
    """Put a tick at each value, on a logarithmic axis if the values are spread more evenly there."""
    positive = [value for value in values if value > 0]
    is_wide = bool(positive) and positive[-1] >= _LOG_RATIO * positive[0] and values[0] >= 0
    if is_wide and _smallest_gap([log(value) for value in positive]) >= _smallest_gap(positive):
        # Zero has no logarithm: it is drawn as far below the smallest value as ten times that is above it.
        axes.set_xscale("log") if values[0] else axes.set_xscale("symlog", linthresh=positive[0])
    names = [_value_name(value) for value in values]
    axes.set_xticks(values, names)
    axes.minorticks_off()
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes belong to a figure"
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    if all(left.x1 + left.height / 2 < right.x0 for left, right in pairwise(boxes)):
        return
    # Labels that would overlap are slanted; those that still have no room are left out.
    spacing = _TICK_SPACING * max(box.height for box in boxes) * 2**0.5
    shown, last = list[str](), float("-inf")
    for (x, _), name in zip(axes.transData.transform([(value, 0.0) for value in values]), names, strict=True):
        fits = float(x) - last >= spacing
        shown.append(name if fits else "")
        last = float(x) if fits else last
    axes.set_xticks(values, shown, rotation=_TICK_ANGLE, ha="right", rotation_mode="anchor")


def _smallest_gap(places: Sequence[float]) -> float:
    """Return the smallest distance of neighbours, as a fraction of the whole scale."""
    return min(after - before for before, after in pairwise(places)) / (places[-1] - places[0])


def _value_name(value: float) -> str:
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits, e, power = f"{value:.4g}".partition("e")
    return f"{digits}e{int(power)}" if e else digits
