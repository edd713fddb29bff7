from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.papers.modules import fixture_of

from wardround.reports.plots import Labels, bar_chart

summary, page, spread = fixture_of("common.summary"), fixture_of("common.page"), fixture_of("common.spread")


def test_bars_are_told_and_decide_the_exit_status(
    summary: ModuleType, page: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    bars = [page.Bar("more than one", "2", True), page.Bar("less than one", page.NOTHING, None)]
    assert (summary.tell(bars, met=True), summary.tell(bars[1:], met=False)) == (0, 1)
    told = capsys.readouterr().out.splitlines()
    assert told == ["met: more than one; 2", "not measured: less than one; –", "not measured: less than one; –"]


def test_a_summary_is_read_as_it_was_written(summary: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "expected.json"
    assert summary.read_summary(path) == {}
    summary.write_summary(path, {"studies": {"a": {"seed": [0, 1]}}})
    assert path.read_text() == '{"studies":{"a":{"seed":[0,1]}}}\n'
    assert summary.read_summary(path) == {"studies": {"a": {"seed": [0, 1]}}}


def test_plots_lie_beside_the_page(summary: ModuleType, tmp_path: Path) -> None:
    plot = bar_chart({"one": {"F1": 0.5}}, Labels("Scores", "site", "F1"))
    summary.write_page(tmp_path / "README.md", "# Page\n", {"scores": plot})
    assert (tmp_path / "README.md").read_text() == "# Page\n"
    assert (tmp_path / "scores.svg").read_text().startswith("<svg")


def test_seeds_that_studies_have_in_common(spread: ModuleType) -> None:
    studies = spread.Studies({"a": {"seed": [2, 0, 1]}, "b": {"seed": [3, 2, 1]}, "c": {"seed": [5]}})
    assert studies.seeds("a", "b") == [1, 2]
    assert studies.has("a", "b") and not studies.has("a", "c") and not studies.has("a", "unknown")
    assert studies.seeds() == []


def test_a_spread_in_cells(spread: ModuleType) -> None:
    one, several = spread.Spread.of([0.5]), spread.Spread.of([0.25, 0.25, 0.25])
    assert (one.interval, several.interval, several.seeds) == (None, (0.25, 0.25), 3)
    assert [spread.with_interval(s) for s in (None, one, several)] == ["–", "50.0", "25.0 (25.0 – 25.0)"]
    assert [spread.points(s) for s in (None, one, several)] == ["–", "+50.0", "+25.0 (+25.0 to +25.0)"]
