from __future__ import annotations

from typing import Any

import pytest
from tests.sweeps.tiny_sweeps import GRID, sweep_of

from wardround.errors import SweepError
from wardround.sweeps.plan import check_plan, plan_runs


def check(**sections: Any) -> None:
    sweep = sweep_of(**sections)
    check_plan(plan_runs(sweep), sweep.figures)


def test_one_seed_is_complete_before_the_next() -> None:
    runs = plan_runs(sweep_of())
    assert [run.name for run in runs] == ["FedNER, seed 7", "alone, seed 7", "FedNER, seed 8", "alone, seed 8"]
    assert len({run.key for run in runs}) == 4
    assert [run.study.study.seed for run in runs] == [7, 7, 8, 8]
    assert 'name = "single"' in runs[1].study_text


def test_cells_with_identical_studies_share_a_run() -> None:
    grid = {"a": {"one": {"model.lstm": 8}, "other": {"model.lstm": 8}}}
    first, second = plan_runs(sweep_of(grid=grid))
    assert (first.name, second.name) == ("one, seed 7", "other, seed 7")
    assert first.key == second.key


def test_name_of_a_cell_is_not_part_of_the_run_key() -> None:
    (one,), (other,) = (plan_runs(sweep_of(grid={"a": {name: {"model.lstm": 4}}})) for name in ("x", "y"))
    assert one.key == other.key


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ({"F1": 1.0}, r"\[\[published\]\] without a choice: it must match one cell, not 4"),
        ({"F1": 1.0, "method": "alone"}, r"method = alone: it must match one cell, not 2; name all its choices"),
    ],
)
def test_published_figure_matches_one_cell(published: dict[str, Any], said: str) -> None:
    with pytest.raises(SweepError, match=said):
        plan_runs(sweep_of(grid={**GRID, "model.lstm": [4, 8]}, published=[published]))


def test_valid_sweep_passes() -> None:
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
def test_invalid_cell_is_refused_before_the_first_run_with_its_name(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(SweepError, match=said):
        check(**sections)
