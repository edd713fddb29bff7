from __future__ import annotations

from wardround.reports.interval_cells import interval_cell, score_cell
from wardround.reports.tables import Figures


def test_a_score_and_its_ends() -> None:
    assert score_cell(2 / 3, (0.25, 0.75)) == Figures("0.667 (0.250–0.750)", {"": 2 / 3, "low": 0.25, "high": 0.75})
    assert score_cell(0.5, None) == Figures("0.500", {"": 0.5, "low": None, "high": None})
    assert score_cell(None, None) == Figures("–", {"": None, "low": None, "high": None})


def test_the_ends_alone() -> None:
    assert interval_cell((0.25, 2 / 3)) == Figures("0.250–0.667", {"low": 0.25, "high": 2 / 3})
    assert interval_cell(None) == Figures("", {"low": None, "high": None})
