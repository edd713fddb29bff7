from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.reports.pages import assert_self_contained, cells, drawings

from wardround.evaluation.bootstrap import Interval
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.tag_sets import TagSetScores
from wardround.reports import study_page
from wardround.reports.plots import learning_curves
from wardround.reports.study_page import study_table, study_tables, write_study_page


@dataclass(frozen=True)
class Scored:
    counts: Mapping[str, TypedCounts]
    documents: int
    interval: Interval
    tag_set: TagSetScores | None = None


def scored(tp: int, fp: int, fn: int, *, documents: int = 5) -> Scored:
    strict = TypedCounts({"Drug": SpanCounts(tp, fp, fn)})
    relaxed = TypedCounts({"Drug": SpanCounts(tp + fp, 0, fn)})
    return Scored({"strict": strict, "relaxed": relaxed}, documents, Interval(strict.micro.f1, 0.25, 0.75, 0.95))


# Precision 3/4, recall 3/4; and 1/1, 1/3.
SITES = {"harbour": scored(3, 1, 1), "hillside": scored(1, 0, 2, documents=1000)}


def a_round(number: int, *absent: tuple[str, str, str], up: int = 2_000_000) -> dict[str, Any]:
    gone = [list(who) for who in absent]
    return {"event": "round", "round": number, "loss": 1 / number, "absent": gone, "up": up, "down": 500_000}


def a_scoring(number: int, **f1: float) -> dict[str, Any]:
    return {"event": "scored", "round": number, "f1": f1, "mean_f1": sum(f1.values()) / max(1, len(f1))}


EVENTS = [
    {"event": "started", "round": 0, "sites": 2},
    a_round(1, ("hillside", "failed", "ValueError")),
    a_round(2, ("hillside", "late", "deadline"), ("harbour", "failed", "OSError"), up=9_000_000),
    a_scoring(2, harbour=0.25, hillside=0.5),
    {"event": "absent", "step": "score", "round": 2, "site": "hillside"},
    {"event": "resumed", "round": 1, "sites": 2},
    a_round(2, ("hillside", "failed", "ValueError")),
    a_scoring(2, harbour=0.25, hillside=0.75),
    a_round(3),
    {"event": "finished", "rounds": 3},
]


def written(tmp_path: Path, *, title: str = "Study tiny", sites: Any = SITES, events: Any = EVENTS) -> str:
    path = tmp_path / "run" / "report.html"
    write_study_page(path, title, sites=sites, events=iter(events), study='[study]\nname = "<tiny>"\n\nseed = 7\n')
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    return assert_self_contained(path)


@pytest.fixture
def page(tmp_path: Path) -> str:
    return written(tmp_path)


def test_the_table_by_hand() -> None:
    table = study_table(SITES)
    assert table.columns == ("site", "notes", "P", "R", "strict F1", "95% interval", "relaxed F1")
    # Strict F1 of the second: 2·1/(2·1 + 2). Relaxed: 2·4/(2·4 + 1) and the same again.
    expected: list[tuple[Any, ...]] = [
        ("harbour", 5, 0.75, 0.75, 0.75, "0.250–0.750", pytest.approx(8 / 9)),
        ("hillside", 1000, 1.0, pytest.approx(1 / 3), 0.5, "0.250–0.750", 0.5),
    ]
    assert list(table.rows) == expected
    # Each site counts alike, whatever its size.
    mean: tuple[Any, ...] = ("mean", 1005, 0.875, pytest.approx(13 / 24), 0.625, "", pytest.approx(25 / 36))
    assert table.totals == (mean,)


def test_the_table_of_a_task_with_one_reading_or_with_three() -> None:
    interval = Interval(0.5, 0.25, 0.75, 0.95)
    found, missed = TypedCounts({"causes": SpanCounts(1, 1, 1)}), TypedCounts({"causes": SpanCounts(0, 0, 2)})
    table = study_table({"harbour": Scored({"relations": found}, 3, interval)})
    assert table.columns == ("site", "notes", "P", "R", "relations F1", "95% interval")
    assert table.rows == (("harbour", 3, 0.5, 0.5, 0.5, "0.250–0.750"),)
    assert table.totals == (("mean", 3, 0.5, 0.5, 0.5, ""),)
    three = study_table({"harbour": Scored({"strict": missed, "entities": found, "given": missed}, 3, interval)})
    assert three.columns[4:] == ("strict F1", "95% interval", "entities F1", "given F1")
    assert three.rows == (("harbour", 3, 0.0, 0.0, 0.0, "0.250–0.750", 0.5, 0.0),)


def annotating(annotated: str, scored_on: str, **counts: SpanCounts) -> Scored:
    found = TypedCounts(counts)
    interval = Interval(found.micro.f1, 0.25, 0.75, 0.95)
    return Scored(
        {"strict": found, "relaxed": found},
        5,
        interval,
        TagSetScores(found, (*annotated.split(),), (*scored_on.split(),)),
    )


DIFFERENT = {
    "harbour": annotating("Drug", "Drug ADE", Drug=SpanCounts(3, 1, 1), ADE=SpanCounts(1, 0, 2)),
    "hillside": annotating("ADE", "Drug ADE", Drug=SpanCounts(0, 0, 4), ADE=SpanCounts(4, 0, 0)),
}


def test_where_sites_annotate_different_types_each_type_has_a_row(tmp_path: Path) -> None:
    page = written(tmp_path, sites=DIFFERENT)
    assert "Strict F1 by type and site" in page
    assert cells(page, "Drug")[0] == ["0.750 ●", "0.000"]
    assert cells(page, "ADE")[0] == ["0.500", "1.000 ●"]
    assert cells(page, "macro, all") == [["0.625", "0.500"]]
    assert cells(page, "macro, annotated ●") == [["0.750", "1.000"]]
    assert cells(page, "macro, not annotated") == [["0.500", "0.000"]]


def test_where_sites_annotate_alike_or_do_not_say_there_is_no_such_table() -> None:
    drug = {"Drug": SpanCounts(1, 0, 0)}
    alike = {
        "harbour": annotating("Drug ADE", "Drug ADE", **drug),
        "hillside": annotating("ADE Drug", "ADE Drug", **drug),
    }
    assert len(study_tables(alike)) == len(study_tables(SITES)) == 1
    assert len(study_tables({**DIFFERENT, "lakeside": SITES["harbour"]})) == 1
    assert len(study_tables(DIFFERENT)) == 2
    # Every site annotates one type; at one of them the test notes are annotated with more.
    more = {"harbour": annotating("Drug", "Drug ADE", **drug), "hillside": annotating("Drug", "Drug", **drug)}
    assert len(study_tables(more)) == 2


def test_a_page_of_relations(tmp_path: Path) -> None:
    counts = {"relations": TypedCounts({"causes": SpanCounts(3, 1, 1), "with": SpanCounts(0, 0, 2)})}
    page = written(tmp_path, sites={"harbour": Scored(counts, 5, Interval(0.6, 0.25, 0.75, 0.95))})
    assert "Relations micro-F1 0.600 (95% interval 0.250–0.750) on 5 notes." in page
    assert cells(page, "causes") == [["0.750", "0.750", "0.750", "4", "4"]]
    assert "Relations micro-F1 on each site&#x27;s development notes." in page
    assert "strict" not in page.lower()


def test_the_parts_of_the_page(page: str) -> None:
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == [
        *("Scores", "Rounds", "What passed the door"),
        *("Harbour", "Hillside"),
        "The study file",
    ]
    assert "<h1>Study tiny</h1>" in page


def test_scores_of_each_site(page: str) -> None:
    assert cells(page, "hillside")[0] == ["1,000", "1.000", "0.333", "0.500", "0.250–0.750", "0.500"]
    assert cells(page, "mean") == [["1,005", "0.875", "0.542", "0.625", "", "0.694"]]
    assert "Strict micro-F1 0.500 (95% interval 0.250–0.750) on 1,000 notes." in page


def test_bytes_of_a_round_done_again_after_a_crash_count_once(page: str) -> None:
    # Three rounds of 2 MB up and half of one down; the round of 9 MB was lost.
    assert cells(page, "up, from the sites") == [["6.0 MB", "2.0 MB"]]
    assert cells(page, "down, to the sites") == [["1.5 MB", "500.0 KB"]]


def test_absences_are_counted_by_site_and_code(page: str) -> None:
    assert ["failed", "ValueError", "2"] in cells(page, "hillside")
    assert "OSError" not in page
    assert "deadline" not in page


def test_numbers_that_were_clipped_are_told_where_updates_are_protected(tmp_path: Path, page: str) -> None:
    assert "clipped" not in page
    events = [a_round(number) | {"clipped": count} for number, count in enumerate((0, 5, 2), 1)]
    assert cells(written(tmp_path, events=events), "7") == [["2", "3", "5"]]


def test_where_nobody_was_absent(tmp_path: Path) -> None:
    page = written(tmp_path, events=[a_round(1)])
    assert cells(page, "none") == [["", "", "0"]]


def test_drawings_told_in_words(page: str) -> None:
    assert len(drawings(page)) == 3
    assert re.findall(r'<img [^>]*alt="([^"]*)"', page) == [
        "Whiskers are 95% bootstrap intervals over each site&#x27;s notes.",
        "Strict micro-F1 on each site&#x27;s development notes.",
        "Mean over the sites that answered, weighted by their sizes.",
    ]


def test_names_are_escaped(tmp_path: Path) -> None:
    page = written(tmp_path, title="<b>Study", sites={"<i>ward": scored(1, 1, 1)})
    assert "<h1>&lt;b&gt;Study</h1>" in page
    assert cells(page, "&lt;i&gt;ward")
    assert "<i>" not in page
    assert "<tiny>" not in page


def test_the_study_file_line_by_line(page: str) -> None:
    for line in ("[study]", "name = &quot;&lt;tiny&gt;&quot;", "seed = 7"):
        assert cells(page, line) == [[]]


def test_without_events_there_is_a_page_still(tmp_path: Path) -> None:
    page = written(tmp_path, events=[])
    assert len(drawings(page)) == 1
    assert cells(page, "up, from the sites") == [["0 B", "0 B"]]


@pytest.mark.parametrize(("count", "named"), [(10, True), (11, False)])
def test_of_many_sites_the_mean_is_drawn(
    tmp_path: Path, count: int, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[set[str]] = []

    def listened(series: Any, labels: Any) -> Any:
        drawn.append(set(series))
        return learning_curves(series, labels)

    monkeypatch.setattr(study_page, "learning_curves", listened)
    names = {f"h{number}": 0.5 for number in range(count)}
    written(tmp_path, events=[a_round(1), a_scoring(1, **names), a_round(2), a_scoring(2, **names)])
    assert drawn[0] == (set(names) if named else {"mean"})
    assert drawn[1] == {"loss"}


def test_a_site_that_was_absent_from_a_scoring(tmp_path: Path) -> None:
    events = [a_round(1), a_scoring(1, harbour=0.5), a_round(2), a_scoring(2, harbour=0.5, hillside=0.25)]
    assert len(drawings(written(tmp_path, events=events))) == 3
