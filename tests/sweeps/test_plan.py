from __future__ import annotations

from typing import Any

import pytest
from tests.sweeps.tiny_sweeps import GRID, sweep_of

from wardround.errors import SweepError
from wardround.sweeps.plan import check_all, planned


def check(**sections: Any) -> None:
    sweep = sweep_of(**sections)
    check_all(planned(sweep), sweep.figures)


def test_every_cell_with_the_first_seed_then_with_the_second() -> None:
    runs = planned(sweep_of())
    assert [run.name for run in runs] == ["FedNER, seed 7", "alone, seed 7", "FedNER, seed 8", "alone, seed 8"]
    assert len({run.key for run in runs}) == 4
    assert [run.study.study.seed for run in runs] == [7, 7, 8, 8]
    assert 'name = "single"' in runs[1].asked


def test_cells_that_are_the_same_study_are_one_run() -> None:
    grid = {"a": {"one": {"model.lstm": 8}, "other": {"model.lstm": 8}}}
    first, second = planned(sweep_of(grid=grid))
    assert (first.name, second.name) == ("one, seed 7", "other, seed 7")
    assert first.key == second.key


def test_a_name_of_a_cell_is_not_part_of_its_run() -> None:
    (one,), (other,) = (planned(sweep_of(grid={"a": {name: {"model.lstm": 4}}})) for name in ("x", "y"))
    assert one.key == other.key


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ({"F1": 1.0}, r"\[\[published\]\] without a choice: it must name one cell, not 4"),
        ({"F1": 1.0, "method": "alone"}, r"method = alone: it must name one cell, not 2; name every choice of it"),
    ],
)
def test_a_figure_of_others_stands_in_one_row(published: dict[str, Any], said: str) -> None:
    with pytest.raises(SweepError, match=said):
        planned(sweep_of(grid={**GRID, "model.lstm": [4, 8]}, published=[published]))


def test_a_sweep_that_makes_sense() -> None:
    check()


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"report": {"F1": "sites.*.strikt.f1"}}, r"^FedNER: \[report\] sites.\*.strikt.f1: there is no 'strikt'"),
        ({"grid": {"model.preset": ["fedner", "fedmer"]}}, "^fedmer: no preset is called 'fedmer'"),
        (
            {"grid": {"model.lsmt": [8]}},
            "^lsmt 8: 'lsmt' is not an option of .* – did you mean 'lstm'",
        ),
        ({"grid": {"model.shared": [["wrods"]]}}, r"^wrods: \[model\] shared: no layer group is called 'wrods'"),
        ({"grid": {"sites.harbour.built_in": ["habour"]}}, "^habour: no built-in hospital is called 'habour'"),
    ],
)
def test_everything_is_refused_before_the_first_run_with_the_name_of_the_cell(
    sections: dict[str, Any], said: str
) -> None:
    with pytest.raises(SweepError, match=said):
        check(**sections)
