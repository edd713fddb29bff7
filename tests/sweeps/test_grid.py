from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studies.tiny_studies import TABLE

from wardround.errors import SweepError
from wardround.sweeps.grid import Axis, Cell, axis_of, cells_of, key_of, study_of, varied

BASE: dict[str, Any] = dict(TABLE)
METHODS = {"FedNER": {"algorithm.name": "fedner"}, "alone": {"algorithm.name": "single", "unset": ["model.shared"]}}


def axes(**grid: Any) -> list[Axis]:
    return [axis_of(name.replace("__", "."), values, BASE) for name, values in grid.items()]


def cell(**grid: Any) -> Cell:
    (found,) = cells_of(axes(**grid), ())
    return found


def test_the_first_axis_is_the_slowest() -> None:
    found = cells_of(axes(method=METHODS, model__lstm=[4, 8]), ())
    assert [c.name for c in found] == ["FedNER, lstm 4", "FedNER, lstm 8", "alone, lstm 4", "alone, lstm 8"]


def test_what_is_excluded_is_left_out() -> None:
    found = cells_of(axes(method=METHODS, model__lstm=[4, 8]), [{"method": "alone", "model.lstm": "8"}])
    assert [c.name for c in found] == ["FedNER, lstm 4", "FedNER, lstm 8", "alone, lstm 4"]
    with pytest.raises(SweepError, match="leaves nothing of the grid"):
        cells_of(axes(model__lstm=[4]), [{"model.lstm": "4"}])


def test_an_exclusion_that_excludes_nothing_is_a_mistake() -> None:
    with pytest.raises(SweepError, match=r"^\[\[exclude\]\] method = pooled is no combination of the grid$"):
        cells_of(axes(method=METHODS), [{"method": "pooled"}])


def test_settings_are_changed_added_and_left_out_and_the_base_stays() -> None:
    found = varied(BASE, cell(method={"alone": {**METHODS["alone"], "privacy.minimum_sites": 2}}), 3)
    assert found["algorithm"] == {"name": "single", "rounds": 6}
    assert found["privacy"] == {"minimum_sites": 2}
    assert found["study"] == {"name": "tiny", "seed": 3}
    assert "shared" not in found["model"]
    assert BASE["algorithm"]["name"] == "fedner" and "shared" in BASE["model"] and "privacy" not in BASE


def test_sites_are_picked() -> None:
    chosen = cell(sites=[["hillside"]])
    assert chosen.name == "hillside"
    assert varied(BASE, chosen, 0)["sites"] == {"hillside": BASE["sites"]["hillside"]}
    assert cell(sites=[["harbour", "hillside"]]).name == "harbour + hillside"


def test_a_setting_of_one_site() -> None:
    found = varied(BASE, cell(sites__harbour__scheme=["BIOES"]), 0)
    assert found["sites"]["harbour"]["scheme"] == "BIOES" and "scheme" not in BASE["sites"]["harbour"]


def test_values_as_tables_show_them() -> None:
    assert cell(privacy__error_feedback=[True]).name == "error_feedback true"
    assert cell(training__learning_rate=[1e-3]).name == "learning_rate 0.001"
    assert cell(algorithm__name=["fedavg"]).name == "fedavg"
    assert Cell({}).name == "the study"


def test_which_axes_are_numbers() -> None:
    (lstm, method, flag) = axes(model__lstm=[4, 8], method=METHODS, privacy__error_feedback=[True, False])
    assert (lstm.numbers, method.numbers, flag.numbers) == ((4.0, 8.0), None, None)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"algorithm__name": ["fedmer"]}, r"^fedmer: \[algorithm\] name: 'fedmer' is no algorithm – did you mean"),
        ({"algorithm__roudns": [3]}, r"^roudns 3: \[algorithm\] 'roudns' is not a setting – did you mean 'rounds'"),
        ({"a": {"long": {"rounds": 3}}}, r"^long: \[rounds\] is no section"),
        ({"algorithm__name": ["single"]}, r"^single: \[model\] shared is for an algorithm that shares what it is told"),
        ({"study__name__first": ["a"]}, r"study.name.first: 'name' is a value, no section"),
        ({"a": {"b": {"unset": ["model.lsmt"]}}}, r"unset: the base has no model.lsmt"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused_with_the_name_of_its_cell(grid: dict[str, Any], said: str) -> None:
    with pytest.raises(SweepError, match=said):
        study_of(BASE, cell(**grid), 0, folder=Path())


def test_a_run_is_named_by_its_settings_whatever_their_order() -> None:
    one, other = {"a": {"x": 1, "y": [2]}, "b": {}}, {"b": {}, "a": {"y": [2], "x": 1}}
    assert key_of(one) == key_of(other) != key_of({**one, "a": {"x": 1, "y": [3]}})
    assert len(key_of(one)) == 16
