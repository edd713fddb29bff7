from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.workspace import TINY
from tests.models.tiny import notes

import wardround
from wardround import Corpus

SITES: Any = {name: {"built_in": name, "types": ["Drug"]} for name in ("harbour-0000", "hillside-0001")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, wardround.StudyResult]:
    folder = tmp_path_factory.mktemp("runs")
    studies = {
        name: wardround.Study(name, sites=SITES, algorithm={"name": name, "rounds": 2}, model=TINY)
        for name in ("single", "fedavg")
    }
    return {name: wardround.run(study, out=folder / name, progress=False) for name, study in studies.items()}


def test_runs_are_compared_by_the_names_that_were_given(runs: dict[str, wardround.StudyResult]) -> None:
    comparison = wardround.compare({"alone": runs["single"], "together": runs["fedavg"]})
    assert comparison.runs == ("alone", "together")
    assert [row[:2] for row in comparison.tables[0].rows] == [("alone", "single"), ("together", "fedavg")]
    assert comparison.tables[2].title == "together minus alone"
    for name, run in (("alone", runs["single"]), ("together", runs["fedavg"])):
        assert comparison.scores[name] == {site: found["strict"]["f1"] for site, found in run.scores.items()}


def test_runs_may_be_folders_named_by_themselves(runs: dict[str, wardround.StudyResult]) -> None:
    comparison = wardround.compare([runs["single"].folder, str(runs["fedavg"].folder)])
    assert comparison.runs == ("single", "fedavg")


def test_a_run_compared_with_itself_does_not_differ(runs: dict[str, wardround.StudyResult]) -> None:
    table = wardround.compare({"a": runs["fedavg"], "b": runs["fedavg"]}).tables[2]
    assert {row[1] for row in (*table.rows, *table.totals)} == {0.0}


def test_a_comparison_has_charts_a_page_and_frames(runs: dict[str, wardround.StudyResult], tmp_path: Path) -> None:
    comparison = wardround.compare(runs)
    assert [chart.name for chart in comparison.charts][:2] == ["f1-by-site-and-run", "development-f1-by-run"]
    page = comparison.report(tmp_path / "report")
    assert page.is_file()
    assert (page.parent / "report.md").is_file()
    assert list((page.parent / "tables").glob("*.csv"))
    assert "data:image/svg+xml" in comparison._repr_html_()
    pytest.importorskip("pandas", reason="pandas is not installed")
    assert list(comparison.to_frame()["run"]) == ["single", "fedavg"]
    assert list(comparison.to_frame(1)["site"]) == list(SITES)


@pytest.mark.parametrize("wrong", [[], {}, "run", Path("run")])
def test_one_run_is_no_comparison(wrong: Any) -> None:
    with pytest.raises(wardround.UsageError, match="compare needs two runs or more"):
        wardround.compare(wrong)


def test_runs_that_cannot_be_compared_are_refused(
    runs: dict[str, wardround.StudyResult], workspace: Path, tmp_path: Path
) -> None:
    with pytest.raises(wardround.UsageError, match="there is no run folder 'nowhere'"):
        wardround.compare([runs["single"], tmp_path / "nowhere"])
    with pytest.raises(wardround.UsageError, match="notes is not a run folder"):
        wardround.compare([runs["single"], workspace / "notes"])


def test_trainings_are_compared_too(workspace: Path, tmp_path: Path) -> None:
    corpus = Corpus({"train": notes(40, seed=1), "dev": notes(30, seed=2), "test": notes(12, seed=3)})
    result = wardround.train(corpus, out=tmp_path / "other", model=TINY, training={"epochs": 1}, progress=False)
    comparison = wardround.compare([workspace / "run", result])
    assert comparison.runs == ("run", "other")
    assert comparison.tables[2].rows[0][5] == "paired bootstrap of notes"
