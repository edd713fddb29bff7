from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.papers.modules import fixture_of

from wardround.reports.plots import Labels, bar_chart

summarise, cells, common = fixture_of("summarise"), fixture_of("common.cells"), fixture_of("common.paper")


def test_targets_are_printed_and_decide_the_exit_status(
    summarise: ModuleType, cells: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    bars = [cells.Bar("more than one", "2", True), cells.Bar("less than one", cells.NOTHING, None)]
    assert (summarise.check(bars, met=True), summarise.check(bars[1:], met=False)) == (0, 1)
    told = capsys.readouterr().out.splitlines()
    assert told == ["met: more than one; 2", "not measured: less than one; –", "not measured: less than one; –"]


def test_a_summary_is_read_as_it_was_written(summarise: ModuleType, common: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "expected.json"
    assert common.read_json(path) == {}
    summarise.write_summary(path, {"studies": {"a": {"seed": [0, 1]}}})
    assert path.read_text() == '{"studies":{"a":{"seed":[0,1]}}}\n'
    assert common.read_json(path) == {"studies": {"a": {"seed": [0, 1]}}}


def test_plots_lie_beside_the_page(summarise: ModuleType, common: ModuleType, tmp_path: Path) -> None:
    plot = bar_chart({"one": {"F1": 0.5}}, Labels("Scores", "site", "F1"))
    (tmp_path / "README.md").write_text("# Page\n")
    summarise.write_page(common.Paper("toy", plots=lambda measured: {"scores": plot}), tmp_path / "README.md", {})
    assert (tmp_path / "README.md").read_text() == "# Page\n"
    assert (tmp_path / "scores.svg").read_text().startswith("<svg")


def test_seeds_that_studies_have_in_common(cells: ModuleType) -> None:
    studies = cells.Studies({"studies": {"a": {"seed": [2, 0, 1]}, "b": {"seed": [3, 2, 1]}, "c": {"seed": [5]}}})
    assert studies.seeds("a", "b") == [1, 2]
    assert studies.has("a", "b") and not studies.has("a", "c") and not studies.has("a", "unknown")
    assert studies.seeds() == []


def test_a_spread_in_cells(cells: ModuleType) -> None:
    one, several = cells.Spread.of([0.5]), cells.Spread.of([0.25, 0.25, 0.25])
    assert (one.interval, several.interval, several.seeds) == (None, (0.25, 0.25), 3)
    assert [cells.with_interval(s) for s in (None, one, several)] == ["–", "50.0", "25.0 (25.0 – 25.0)"]
    assert [cells.points(s) for s in (None, one, several)] == ["–", "+50.0", "+25.0 (+25.0 to +25.0)"]
