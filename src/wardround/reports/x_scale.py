"""What stands below a line chart: whole steps, amounts, or the values that somebody chose, each by its name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import log
from typing import Literal, TypeAlias

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

__all__ = ["Along", "count_in_steps", "give_x_scale"]

# Rounds and epochs; megabytes and seconds; learning rates and shares.
Along: TypeAlias = Literal["steps", "amounts", "choices"]

_FAR_APART = 10  # the largest value over the smallest, from which values may stand in times
_SLANT = 45
_SPARE = 1.1  # of a name's size, from one to the next


def give_x_scale(axes: Axes, values: Collection[float], along: Along | None = None) -> None:
    """Of a chart that is drawn; unless it is said what `values` are, whole ones are steps and others choices."""
    along = along or ("steps" if all(float(value).is_integer() for value in values) else "choices")
    if along == "steps":
        count_in_steps(axes)
    elif along == "choices" and values:
        _name_each(axes, sorted(set(values)))


def count_in_steps(axes: Axes) -> None:
    """Whole numbers only, also where there is a single one; by ones, twos, fives or tens, as people count."""
    axes.xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def _name_each(axes: Axes, values: Sequence[float]) -> None:
    above = [value for value in values if value > 0]
    if _stand_in_times(above) and values[0] >= 0:
        # Zero has no logarithm: it stands as far below the smallest value as ten times that stands above it.
        axes.set_xscale("log") if values[0] else axes.set_xscale("symlog", linthresh=above[0])
    names = [_name(value) for value in values]
    axes.set_xticks(values, names)
    axes.minorticks_off()
    _make_room(axes, values, names)


def _stand_in_times(values: Sequence[float]) -> bool:
    """Where they lie far apart, and more evenly so than on a plain scale."""
    if not values or values[-1] < _FAR_APART * values[0]:
        return False
    return _closest([log(value) for value in values]) >= _closest(values)


def _closest(places: Sequence[float]) -> float:
    """Of neighbours, as a part of the whole scale."""
    return min(after - before for before, after in pairwise(places)) / (places[-1] - places[0])


def _name(value: float) -> str:
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits, e, power = f"{value:.4g}".partition("e")
    return f"{digits}e{int(power)}" if e else digits


def _make_room(axes: Axes, values: Sequence[float], names: Sequence[str]) -> None:
    """Names that would run into one another are written slanting; one for which that is too narrow is left out."""
    figure = axes.get_figure(root=True)
    assert figure is not None, "the axes are drawn on one"
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    if all(left.x1 + left.height / 2 < right.x0 for left, right in pairwise(boxes)):
        return
    places = [float(x) for x, _ in axes.transData.transform([(value, 0.0) for value in values])]
    kept = _apart(places, _SPARE * max(box.height for box in boxes) * 2**0.5)
    shown = [name if place in kept else "" for place, name in enumerate(names)]
    axes.set_xticks(values, shown, rotation=_SLANT, ha="right", rotation_mode="anchor")


def _apart(places: Sequence[float], least: float) -> set[int]:
    """Which of them can be named from the left on, so far from one another."""
    kept, last = set[int](), float("-inf")
    for number, place in enumerate(places):
        if place - last >= least:
            kept.add(number)
            last = place
    return kept
