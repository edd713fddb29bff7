from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studies.tiny_studies import TABLE

from wardround.errors import SweepError
from wardround.sweeps.grid import Axis, Cell, apply_choices, cell_study, grid_cells, parse_axis, run_key

BASE: dict[str, Any] = dict(TABLE)
METHODS = {"FedNER": {"algorithm.name": "fedner"}, "alone": {"algorithm.name": "single", "unset": ["model.shared"]}}


def axes(**grid: Any) -> list[Axis]:
    return [parse_axis(name.replace("__", "."), values, BASE) for name, values in grid.items()]


def cell(**grid: Any) -> Cell:
    (found,) = grid_cells(axes(**grid), ())
    return found


def test_first_axis_varies_slowest() -> None:
    found = grid_cells(axes(method=METHODS, model__lstm=[4, 8]), ())
    assert [c.name for c in found] == ["FedNER, lstm 4", "FedNER, lstm 8", "alone, lstm 4", "alone, lstm 8"]


def test_excluded_cells_are_left_out() -> None:
    found = grid_cells(axes(method=METHODS, model__lstm=[4, 8]), [{"method": "alone", "model.lstm": "8"}])
    assert [c.name for c in found] == ["FedNER, lstm 4", "FedNER, lstm 8", "alone, lstm 4"]
    with pytest.raises(SweepError, match="excludes the whole grid"):
        grid_cells(axes(model__lstm=[4]), [{"model.lstm": "4"}])


def test_exclusion_without_effect_is_refused() -> None:
    with pytest.raises(SweepError, match=r"^\[\[exclude\]\] method = pooled is not a combination of the grid$"):
        grid_cells(axes(method=METHODS), [{"method": "pooled"}])


def test_choices_change_add_and_remove_settings_of_a_copy() -> None:
    found = apply_choices(BASE, cell(method={"alone": {**METHODS["alone"], "privacy.minimum_sites": 2}}), 3)
    assert found["algorithm"] == {"name": "single", "rounds": 6}
    assert found["privacy"] == {"minimum_sites": 2}
    assert found["study"] == {"name": "tiny", "seed": 3}
    assert "shared" not in found["model"]
    assert BASE["algorithm"]["name"] == "fedner" and "shared" in BASE["model"] and "privacy" not in BASE


def test_sites_are_selected_by_name() -> None:
    chosen = cell(sites=[["hillside"]])
    assert chosen.name == "hillside"
    assert apply_choices(BASE, chosen, 0)["sites"] == {"hillside": BASE["sites"]["hillside"]}
    assert cell(sites=[["harbour", "hillside"]]).name == "harbour + hillside"


def test_setting_of_one_site() -> None:
    found = apply_choices(BASE, cell(sites__harbour__scheme=["BIOES"]), 0)
    assert found["sites"]["harbour"]["scheme"] == "BIOES" and "scheme" not in BASE["sites"]["harbour"]


def test_names_of_cells_with_plain_values() -> None:
    assert cell(privacy__error_feedback=[True]).name == "error_feedback true"
    assert cell(training__learning_rate=[1e-3]).name == "learning_rate 0.001"
    assert cell(algorithm__name=["fedavg"]).name == "fedavg"
    assert Cell({}).name == "the study"


def test_numeric_axes() -> None:
    (lstm, method, flag) = axes(model__lstm=[4, 8], method=METHODS, privacy__error_feedback=[True, False])
    assert (lstm.numbers, method.numbers, flag.numbers) == ((4.0, 8.0), None, None)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"algorithm__name": ["fedmer"]}, r"^fedmer: \[algorithm\] name: 'fedmer' is not an algorithm – did you mean"),
        ({"algorithm__roudns": [3]}, r"^roudns 3: \[algorithm\] 'roudns' is not a setting – did you mean 'rounds'"),
        ({"a": {"long": {"rounds": 3}}}, r"^long: \[rounds\] is not a section"),
        ({"algorithm__name": ["single"]}, r"^single: \[model\] shared cannot be set for"),
        ({"study__name__first": ["a"]}, r"study.name.first: 'name' is a value, not a section"),
        ({"a": {"b": {"unset": ["model.lsmt"]}}}, r"unset: the base has no model.lsmt"),
    ],
)
def test_invalid_study_is_refused_with_the_name_of_its_cell(grid: dict[str, Any], said: str) -> None:
    with pytest.raises(SweepError, match=said):
        cell_study(BASE, cell(**grid), 0, folder=Path())


def test_run_key_ignores_the_order_of_settings() -> None:
    one, other = {"a": {"x": 1, "y": [2]}, "b": {}}, {"b": {}, "a": {"y": [2], "x": 1}}
    assert run_key(one) == run_key(other) != run_key({**one, "a": {"x": 1, "y": [3]}})
    assert len(run_key(one)) == 16
