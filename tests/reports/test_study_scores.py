from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.reports.run_records import SITES, Scored, annotating, scored

from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.leakage import LeakageScore, TypeLeakage
from wardround.evaluation.significance import Interval
from wardround.reports.study_scores import study_table, study_tables, type_table
from wardround.reports.tables import interval_cell

WIDE = interval_cell((0.25, 0.75))


def test_the_table_by_hand() -> None:
    table = study_table(SITES)
    assert table.columns == ("site", "notes", "P", "R", "strict F1", "95% interval", "relaxed F1")
    # Strict F1 of the second: 2·1/(2·1 + 2). Relaxed: 2·4/(2·4 + 1) and the same again.
    expected: list[tuple[Any, ...]] = [
        ("harbour", 5, 0.75, 0.75, 0.75, WIDE, pytest.approx(8 / 9)),
        ("hillside", 1000, 1.0, pytest.approx(1 / 3), 0.5, WIDE, 0.5),
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
    assert table.rows == (("harbour", 3, 0.5, 0.5, 0.5, WIDE),)
    assert table.totals == (("mean", 3, 0.5, 0.5, 0.5, ""),)
    three = study_table({"harbour": Scored({"strict": missed, "entities": found, "given": missed}, 3, interval)})
    assert three.columns[4:] == ("strict F1", "95% interval", "entities F1", "given F1")
    assert three.rows == (("harbour", 3, 0.0, 0.0, 0.0, WIDE, 0.5, 0.0),)


DIFFERENT = {
    "harbour": annotating("Drug", "Drug ADE", Drug=SpanCounts(3, 1, 1), ADE=SpanCounts(1, 0, 2)),
    "hillside": annotating("ADE", "Drug ADE", Drug=SpanCounts(0, 0, 4), ADE=SpanCounts(4, 0, 0)),
}


def test_where_sites_annotate_different_types_each_type_has_a_row() -> None:
    table = study_tables(DIFFERENT)[1]
    assert table.title == "Strict F1 by type and site"
    assert table.to_csv().splitlines() == [
        "type,harbour,harbour annotated,hillside,hillside annotated",
        "Drug,0.75,yes,0.0,no",
        "ADE,0.5,no,1.0,yes",
        '"macro, all",0.625,,0.5,',
        '"macro, annotated ●",0.75,,1.0,',
        '"macro, not annotated",0.5,,0.0,',
    ]


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


def test_what_leaks_is_told_of_all_sites() -> None:
    leakage = LeakageScore(by_type={"NAME": TypeLeakage(7, 4, 2, 3)}, exposed_notes=3)
    sites = {name: replace(site, leakage=leakage) for name, site in SITES.items()}
    assert [table.title for table in study_tables(sites)[1:]] == [
        "Leakage on each site's test notes",
        "Leakage, all sites: mentions by type",
    ]


def test_a_site_by_type_with_intervals_where_they_are_known() -> None:
    strict = TypedCounts({"ADE": SpanCounts(1, 0, 2), "Drug": SpanCounts(3, 1, 1)})
    relaxed = TypedCounts({"Drug": SpanCounts(4, 0, 0)})
    known = {"Drug": Interval(0.75, 0.5, 1.0)}
    table = type_table(Scored({"strict": strict, "relaxed": relaxed}, 5, Interval(2 / 3, 0.25, 0.75), known))
    assert table.columns == ("type", "P", "R", "strict F1", "95% interval", "relaxed F1", "gold")
    expected: list[tuple[Any, ...]] = [
        ("ADE", 1.0, pytest.approx(1 / 3), 0.5, interval_cell(None), None, 3),
        ("Drug", 0.75, 0.75, 0.75, interval_cell((0.5, 1.0)), 1.0, 4),
    ]
    assert list(table.rows) == expected
    # Four right, one wrong, three missed.
    micro: tuple[Any, ...] = ("micro", 0.8, pytest.approx(4 / 7), pytest.approx(8 / 12), WIDE, 1.0, 7)
    macro: tuple[Any, ...] = ("macro", 0.875, pytest.approx(13 / 24), 0.625, "", 1.0, 7)
    assert table.totals == (micro, macro)


def test_ends_of_intervals_are_numbers_in_a_csv() -> None:
    lines = study_table({"harbour": replace(SITES["harbour"], interval=Interval(0.75, 1 / 3, 2 / 3))}).to_csv()
    assert lines.splitlines() == [
        "site,notes,P,R,strict F1,95% interval low,95% interval high,relaxed F1",
        f"harbour,5,0.75,0.75,0.75,{1 / 3},{2 / 3},{8 / 9}",
        f"mean,5,0.75,0.75,0.75,,,{8 / 9}",
    ]


def test_a_site_of_one_reading() -> None:
    assert type_table(replace(scored(3, 1, 1), counts={"relations": TypedCounts()})).columns[3:] == (
        "relations F1",
        "95% interval",
        "gold",
    )
