from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from matplotlib.axes import Axes

from wardround.reports.plots import Labels, learning_curves
from wardround.reports.x_scale import Along


def drawn(values: Sequence[float], along: Along | None = None) -> Axes:
    curve = [(value, 0.5) for value in values]
    (axes,) = learning_curves({"measured": curve}, Labels("T", "x", "F1"), along=along).figure.axes
    return axes


def names(axes: Axes) -> list[str]:
    """Those that can be seen."""
    low, high = axes.get_xlim()
    shown = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return [label.get_text() for place, label in shown if low <= place <= high]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.1, 0.25, 0.5, 1.0], ["0.1", "0.25", "0.5", "1"]),
        ([0.03, 0.001, 0.01], ["0.001", "0.01", "0.03"]),
        ([0.5], ["0.5"]),
        ([0.073124, 12.1234], ["0.07312", "12.12"]),
        ([0.00001, 12345.75], ["1e-5", "12,346"]),
        ([0.5, 1500.0], ["0.5", "1,500"]),
    ],
)
def test_each_choice_is_named(values: list[float], said: list[str]) -> None:
    axes = drawn(values)
    assert sorted(set(values)) == pytest.approx(list(axes.get_xticks()))
    assert names(axes) == said


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([0.001, 0.01, 0.1], "log"),
        ([0.0003, 0.001, 0.003], "log"),
        ([0.1, 1.0], "log"),
        ([0.1, 0.3, 0.9], "linear"),  # nine times
        ([0.1, 0.25, 0.5, 0.75, 1.0], "linear"),  # ten times, but even steps
        ([0.0, 0.25, 0.5], "linear"),
        ([0.0, 0.01, 0.1, 1.5], "symlog"),
        ([-0.5, 0.01, 1.0], "linear"),
    ],
)
def test_what_lies_far_apart_stands_in_times(values: list[float], scale: str) -> None:
    axes = drawn(values)
    assert axes.get_xscale() == scale
    assert list(axes.xaxis.get_minorticklocs()) == []


def test_zero_has_a_place_of_its_own_before_what_stands_in_times() -> None:
    axes = drawn([0.0, 0.01, 0.1, 1.0], "choices")
    places = [float(x) for x, _ in axes.transData.transform([(value, 0.5) for value in (0.0, 0.01, 0.1, 1.0)])]
    gaps = [after - before for before, after in pairwise(places)]
    assert gaps == pytest.approx([gaps[1] * 10 / 9, gaps[1], gaps[1]])


def test_whole_choices_are_named_where_it_is_said_that_they_are_choices() -> None:
    axes = drawn([8, 64, 512], "choices")
    assert names(axes) == ["8", "64", "512"] and axes.get_xscale() == "log"


@pytest.mark.parametrize("last", [1, 2, 3, 40])
def test_steps_are_whole(last: int) -> None:
    axes = drawn([float(number) for number in range(1, last + 1)])
    assert axes.get_xscale() == "linear"
    assert names(axes) and all(name.isdigit() for name in names(axes))


def test_steps_are_counted_as_people_count() -> None:
    assert names(drawn([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])) == ["10", "20", "30", "40", "50", "60"]


def test_amounts_have_a_scale_of_their_own() -> None:
    axes = drawn([0.031, 0.207, 0.512, 0.93], "amounts")
    assert names(axes) == ["0.0", "0.2", "0.4", "0.6", "0.8"]


def test_names_that_have_no_room_side_by_side_slant() -> None:
    axes = drawn([number / 20 for number in range(1, 21)])
    assert len([name for name in names(axes) if name]) == 20
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {45.0}


def test_names_that_have_no_room_at_all_are_left_out() -> None:
    axes = drawn([0.1, 0.1001, 0.5, 0.9])
    assert names(axes) == ["0.1", "", "0.5", "0.9"]


def test_nothing_has_a_scale_too() -> None:
    assert drawn([], "choices").get_xscale() == "linear"
