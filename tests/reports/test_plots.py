from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import matplotlib
import pytest
from defusedxml.ElementTree import fromstring
from matplotlib.axes import Axes

from wardround.evaluation.entity_scores import Confusion
from wardround.evaluation.significance import Interval
from wardround.reports.plots import (
    Labels,
    Plot,
    State,
    XKind,
    bar_chart,
    confusion_map,
    learning_curves,
    participation_map,
    stacked_bars,
)

LABELS = Labels("F1 by round", "round", "F1")
CURVES = {"FedNER": [(1, 0.2), (2, 0.5), (3, 0.6)], "alone": [(1, 0.1), (2, 0.3)]}
BARS = {"FedNER": {"h1": Interval(0.8, 0.7, 0.85), "h2": 0.6}, "alone": {"h2": 0.5}}
CONFUSION = Confusion({("A", "A"): 3, ("A", "B"): 1, ("B", None): 2, (None, "B"): 5})


PARTS = {"train": {"h1": 3.0, "h2": 1.0}, "send": {"h1": 0.5}}
STATES = (State("not asked", "#e4e7ea", "·"), State("took part", "#0072b2", ""), State("late", "#e69f00", "L"))


def plots() -> list[Plot]:
    return [
        learning_curves(CURVES, LABELS, bands={"alone": [(1, 0.0, 0.2), (2, 0.2, 0.4)]}),
        bar_chart(BARS, LABELS),
        confusion_map(CONFUSION),
        stacked_bars(PARTS, LABELS),
        participation_map({"h1": [1, 1, 2], "h2": [0, 1, 1]}, STATES, LABELS),
    ]


def test_curves_draw_their_points_and_differ_without_colour() -> None:
    (axes,) = learning_curves(CURVES, LABELS).figure.axes
    first, second = axes.lines
    assert list(first.get_xdata()) == [1, 2, 3] and list(first.get_ydata()) == [0.2, 0.5, 0.6]
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_marker() != second.get_marker()
    assert (axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()) == ("F1 by round", "round", "F1")


def test_bars_have_heights_and_error_bars() -> None:
    (axes,) = bar_chart(BARS, LABELS).figure.axes
    assert [patch.get_height() for patch in axes.patches] == [0.8, 0.6, 0.5]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["h1", "h2"]
    # h2 is the second group; of its two bars "alone" stands to the right, 0.2 from the middle.
    assert axes.patches[2].get_x() + axes.patches[2].get_width() / 2 == pytest.approx(1.2)
    segments = axes.collections[0].get_segments()
    assert [point[1] for point in segments[0]] == pytest.approx([0.7, 0.85])


def test_bars_of_many_groups_are_horizontal_and_names_do_not_overlap() -> None:
    names = [f"hospital-{number:04}" for number in range(36)]
    bars = {method: dict.fromkeys(names, Interval(0.5, 0.25, 0.75)) for method in ("alone", "together")}
    plot = bar_chart(bars, Labels("F1 by site", "", "F1"))
    (axes,) = plot.figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("F1", "")
    assert {patch.get_width() for patch in axes.patches} == {0.5}
    # Of two bars in a group the first lies above the second: -0.2 and 0.2 from the middle, and rows count down.
    middles = [axes.patches[place].get_y() + axes.patches[place].get_height() / 2 for place in (0, 36)]
    assert middles == pytest.approx([-0.2, 0.2])
    assert axes.get_ylim() == (35.5, -0.5)
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert all(lower.y1 < upper.y0 for upper, lower in pairwise(boxes))


@pytest.mark.parametrize(("count", "upright"), [(12, True), (13, False)])
def test_the_number_of_groups_decides_the_direction_of_bars(count: int, upright: bool) -> None:
    (axes,) = bar_chart({"alone": {f"h{number}": 0.0 for number in range(count)}}, LABELS).figure.axes
    assert (len(axes.get_xticks()) == count) is upright
    assert (axes.get_ylim() if upright else axes.get_xlim()) == (0.0, 1.0)  # all is zero


def test_a_band_is_drawn_around_its_curve() -> None:
    (axes,) = learning_curves(CURVES, LABELS, bands={"alone": [(1, 0.0, 0.2), (2, 0.2, 0.4)]}).figure.axes
    (band,) = axes.collections
    corners = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
    assert corners == {(1.0, 0.0), (1.0, 0.2), (2.0, 0.2), (2.0, 0.4)}


def test_parts_of_a_bar_are_stacked() -> None:
    (axes,) = stacked_bars(PARTS, LABELS).figure.axes
    found = [(patch.get_x(), patch.get_width()) for patch in axes.patches]
    assert found == [(0.0, 3.0), (0.0, 1.0), (3.0, 0.5), (1.0, 0.0)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["h1", "h2"]
    assert axes.patches[0].get_hatch() != axes.patches[2].get_hatch()


def test_bars_start_at_zero_even_with_a_tiny_part() -> None:
    tiny = {"up": {"describe": 4e-4, "give": 546.2}, "down": {"describe": 2e-4, "give": 0.3}}
    (axes,) = stacked_bars(tiny, LABELS).figure.axes
    assert axes.get_xlim()[0] == 0.0


def test_a_legend_can_have_a_title() -> None:
    named = Labels("F1", "round", "F1", series="method")
    for plot in (learning_curves(CURVES, named), bar_chart(BARS, named), stacked_bars(PARTS, named)):
        (legend,) = plot.figure.legends
        assert legend.get_title().get_text() == "method"


def test_more_parts_than_colours_stay_distinct() -> None:
    (axes,) = stacked_bars({f"part {number}": {"h1": 1.0} for number in range(9)}, LABELS).figure.axes
    looks = [(patch.get_facecolor(), patch.get_hatch()) for patch in axes.patches]
    assert len(set(looks)) == 9


def test_participation_map_has_one_cell_per_round_and_a_letter_for_absences() -> None:
    plot = participation_map({"h1": [1, 1, 2], "h2": [0, 1, 1]}, STATES, LABELS)
    (axes,) = plot.figure.axes
    assert axes.images[0].get_array().tolist() == [[1, 1, 2], [0, 1, 1]]  # type: ignore[union-attr]
    written = {(text.get_position(), text.get_text()) for text in axes.texts if text.get_text()}
    assert written == {((3.0, 0), "L"), ((1.0, 1), "·")}
    (legend,) = plot.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["· not asked", "took part", "L late"]


def test_a_column_of_several_rounds_is_as_wide() -> None:
    (axes,) = participation_map({"h1": [1, 2]}, STATES, LABELS, width=5).figure.axes
    assert axes.images[0].get_extent() == [0.5, 10.5, 0.5, -0.5]
    assert [text.get_position()[0] for text in axes.texts] == [3.0, 8.0]


def test_one_round_is_one_whole_step() -> None:
    (axes,) = participation_map({"h1": [1]}, STATES, LABELS).figure.axes
    assert [x for x in axes.get_xticks() if 0.5 <= x <= 1.5] == [1.0]


def test_confusion_map_writes_counts() -> None:
    (axes,) = confusion_map(CONFUSION).figure.axes
    assert sorted(text.get_text() for text in axes.texts) == ["1", "2", "3", "5"]
    assert axes.images[0].get_array()[0].tolist() == [0.75, 0.25, 0.0]  # type: ignore[index]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A", "B", "spurious"]


def test_formats() -> None:
    for plot in plots():
        root = fromstring(plot.to_svg())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert plot.to_png(dpi=50).startswith(b"\x89PNG\r\n")


def test_same_data_same_bytes() -> None:
    for first, second in zip(plots(), plots(), strict=True):
        assert first.to_svg() == second.to_svg() == first.to_svg()
        assert first.to_png(dpi=50) == second.to_png(dpi=50)
        assert "<metadata" not in first.to_svg()


def test_user_settings_are_neither_used_nor_changed() -> None:
    expected = learning_curves(CURVES, LABELS).to_svg()
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "other", "lines.linewidth": 9}):
        assert learning_curves(CURVES, LABELS).to_svg() == expected
        assert matplotlib.rcParams["font.size"] == 30


def test_names_are_taken_literally() -> None:
    named = learning_curves({"$cost$ \x1b[2J": [(1, 0.5)], "_hidden": [(1, 0.4)]}, LABELS)
    (legend,) = named.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["$cost$ ␛[2J", " _hidden"]
    fromstring(named.to_svg())
    confusion_map(Confusion({("$\\frac", "<b>"): 1})).to_svg()


def test_a_long_legend_makes_the_figure_taller_and_leaves_the_axes_their_room() -> None:
    heights = []
    for types in (2, 25):
        series = {f"FAMILIARES_SUJETO_ASISTENCIA_{number}": [(1, 0.5), (2, 0.6)] for number in range(types)}
        plot = learning_curves(series, Labels("F1 by type", "round", "F1"))
        axes, legend = plot.figure.axes[0].get_window_extent(), plot.figure.legends[0].get_window_extent()
        assert legend.y1 < axes.y0 and legend.y0 >= 0 and axes.y1 < plot.figure.bbox.height
        heights.append(axes.height)
    assert heights[1] > 0.6 * heights[0]


@pytest.mark.parametrize(("longest", "columns"), [(8, 3), (20, 2), (40, 1), (200, 1)])
def test_a_legend_is_no_wider_than_its_figure(longest: int, columns: int) -> None:
    names = [f"{number}" * longest for number in range(5)]
    plot = bar_chart({name: {"all": 0.5} for name in names}, Labels("T", "", "F1"))
    (legend,) = plot.figure.legends
    texts = [text.get_window_extent() for text in legend.get_texts()]
    assert len({round(box.xmin) for box in texts}) == columns
    assert longest == 200 or all(box.xmax <= plot.figure.bbox.xmax for box in texts)


def test_empty_data_can_be_drawn() -> None:
    for plot in (
        learning_curves({}, LABELS),
        bar_chart({}, LABELS),
        confusion_map(Confusion()),
        stacked_bars({}, LABELS),
    ):
        fromstring(plot.to_svg())


def test_pyplot_is_not_imported() -> None:
    program = (
        "import sys; from wardround.reports.plots import Labels, learning_curves; "
        "learning_curves({'a': [(1, 0.5)]}, Labels('t', 'x', 'y')).to_png(); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def drawn(values: Sequence[float], x_kind: XKind | None = None) -> Axes:
    curve = [(value, 0.5) for value in values]
    (axes,) = learning_curves({"measured": curve}, Labels("T", "x", "F1"), x_kind=x_kind).figure.axes
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
def test_values_far_apart_have_a_logarithmic_axis(values: list[float], scale: str) -> None:
    axes = drawn(values)
    assert axes.get_xscale() == scale
    assert list(axes.xaxis.get_minorticklocs()) == []


def test_zero_has_its_own_place_on_a_logarithmic_axis() -> None:
    axes = drawn([0.0, 0.01, 0.1, 1.0], "choices")
    places = [float(x) for x, _ in axes.transData.transform([(value, 0.5) for value in (0.0, 0.01, 0.1, 1.0)])]
    gaps = [after - before for before, after in pairwise(places)]
    assert gaps == pytest.approx([gaps[1] * 10 / 9, gaps[1], gaps[1]])


def test_whole_numbers_can_be_choices() -> None:
    axes = drawn([8, 64, 512], "choices")
    assert names(axes) == ["8", "64", "512"] and axes.get_xscale() == "log"


@pytest.mark.parametrize("last", [1, 2, 3, 40])
def test_steps_are_whole(last: int) -> None:
    axes = drawn([float(number) for number in range(1, last + 1)])
    assert axes.get_xscale() == "linear"
    assert names(axes) and all(name.isdigit() for name in names(axes))


def test_step_ticks_are_round_numbers() -> None:
    assert names(drawn([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])) == ["10", "20", "30", "40", "50", "60"]


def test_amounts_have_a_scale_of_their_own() -> None:
    axes = drawn([0.031, 0.207, 0.512, 0.93], "amounts")
    assert names(axes) == ["0.0", "0.2", "0.4", "0.6", "0.8"]


def test_names_without_room_side_by_side_are_slanted() -> None:
    axes = drawn([number / 20 for number in range(1, 21)])
    assert len([name for name in names(axes) if name]) == 20
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {45.0}


def test_names_without_any_room_are_left_out() -> None:
    axes = drawn([0.1, 0.1001, 0.5, 0.9])
    assert names(axes) == ["0.1", "", "0.5", "0.9"]


def test_all_zero_values_have_a_scale() -> None:
    assert drawn([], "choices").get_xscale() == "linear"
