from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.reports.pages import assert_self_contained
from tests.reports.run_records import a_round, a_run, a_scoring, scored

from wardround.errors import UsageError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.reports.comparison_page import comparison_sections
from wardround.reports.page import write_page
from wardround.reports.run_record import RunRecord
from wardround.reports.tables import Table, score_cell


def notes(*found: int) -> tuple[TypedCounts, ...]:
    """Notes of four drugs each, of which so many were found."""
    return tuple(TypedCounts({"Drug": SpanCounts(tp, 0, 4 - tp)}) for tp in found)


def run(name: str, *, harbour: Sequence[int], hillside: Sequence[int], **more: Any) -> RunRecord:
    parts = {"harbour": notes(*harbour), "hillside": notes(*hillside)}
    sites = {
        site: scored(sum(counts["Drug"].tp for counts in part), 0, sum(counts["Drug"].fn for counts in part))
        for site, part in parts.items()
    }
    return a_run(name, sites=sites, notes=parts, **more)


FIRST = run("first", harbour=(1, 1, 1, 1), hillside=(2, 2, 2, 2))
SECOND = run("second", harbour=(4, 4, 4, 4), hillside=(2, 2, 2, 2))


def tables(*runs: RunRecord) -> dict[str, Table]:
    return {table.title: table for section in comparison_sections(runs) for table in section.tables}


def test_the_runs_and_their_sites() -> None:
    found = tables(FIRST, SECOND)
    # F1 of one in four: 2·4/(2·4 + 12) = 0.4; of two in four 2/3; of all 1.
    assert found["The runs"].rows[0][:5] == ("first", "fedavg", "plain", "7", "round 2")
    assert found["The runs"].rows[1][-1] == pytest.approx((1 + 2 / 3) / 2)
    by_site = found["Strict micro-F1 by site"]
    assert by_site.columns == ("site", "first", "second")
    assert by_site.rows[0] == ("harbour", score_cell(0.4, (0.25, 0.75)), score_cell(1.0, (0.25, 0.75)))
    assert "–:" not in by_site.note
    assert found["The runs"].note == "The mean is over sites; every site has the same weight."


def test_numbers_in_a_csv_are_plain() -> None:
    lines = tables(FIRST, SECOND)["Strict micro-F1 by site"].to_csv().splitlines()
    assert lines == [
        "site,first,first low,first high,second,second low,second high",
        "harbour,0.4,0.25,0.75,1.0,0.25,0.75",
        f"hillside,{2 / 3},0.25,0.75,{2 / 3},0.25,0.75",
    ]


def with_a_third(record: RunRecord) -> RunRecord:
    """The same with a site, lakeside, where a quarter is found: F1 is 2/5."""
    return replace(record, sites={**record.sites, "lakeside": scored(1, 0, 3)})


def test_a_site_that_one_run_lacks_is_shown_and_no_part_of_a_mean() -> None:
    found = tables(FIRST, with_a_third(SECOND))
    by_site, runs, differences = (
        found[title] for title in ("Strict micro-F1 by site", "The runs", "second minus first")
    )
    assert by_site.rows[2] == ("lakeside", score_cell(None, None), score_cell(0.4, (0.25, 0.75)))
    assert by_site.note.endswith(" –: the run does not have this site.")
    # 2/5 and 2/3; 1 and 2/3: the 2/5 of the third is in neither.
    assert [row[-1] for row in runs.rows] == [pytest.approx(8 / 15), pytest.approx(5 / 6)]
    assert runs.note == (
        "The mean is over the sites that all runs have (2 of 3, without lakeside); every site has the same weight."
    )
    assert [row[0] for row in differences.rows] == ["harbour", "hillside"]
    assert differences.note == "Not shown, because only one of the two runs has them: lakeside."
    assert tables(with_a_third(FIRST), SECOND)["second minus first"].note == differences.note


def test_curves_of_different_sites_are_of_those_in_common() -> None:
    events = [a_round(1), a_scoring(1, harbour=0.5, hillside=0.25, lakeside=0.0), a_scoring(2, lakeside=1.0)]
    other = with_a_third(run("x", harbour=(1,), hillside=(1,), events=events))
    (chart, by_bytes) = comparison_sections([FIRST, other])[2].charts
    # FIRST ends with 0.25 and 0.75; the other with 0.5 and 0.25, and in round 2 has none in common.
    assert chart.alt.endswith("without lakeside). Last: first 0.500, x 0.375.")
    assert by_bytes.plot is not None
    assert [list(line.get_ydata()) for line in by_bytes.plot.figure.axes[0].lines] == [[0.5], [0.375]]


def test_means_are_over_own_sites_if_no_site_is_common() -> None:
    other = a_run("other", sites={"lakeside": scored(1, 0, 3)})
    found = tables(FIRST, other)
    assert [row[-1] for row in found["The runs"].rows] == [pytest.approx(8 / 15), pytest.approx(0.4)]
    assert found["The runs"].note.startswith("The mean is over the sites of each run, because no site is in all runs;")
    assert found["other minus first"].rows == ()


def test_only_a_few_of_many_sites_are_named() -> None:
    many = replace(SECOND, sites={**SECOND.sites, **{f"h{number}": scored(1, 0, 3) for number in range(7)}})
    assert "without h0, h1, h2, h3, h4 and 2 more)" in tables(FIRST, many)["The runs"].note


def test_differences_note_by_note() -> None:
    table = tables(FIRST, SECOND)["second minus first"]
    harbour, hillside = table.rows
    # Every note is alike: whichever are drawn, the difference is the same, and no draw is on the other side of zero.
    assert harbour[1:4] == (pytest.approx(0.6), pytest.approx(0.6), pytest.approx(0.6))
    assert harbour[4] == pytest.approx(2 / 1001)
    assert hillside[1:5] == (0.0, 0.0, 0.0, 1.0)
    assert harbour[5] == "paired bootstrap of notes"


def test_over_sites_and_over_all_notes() -> None:
    mean, pooled = tables(FIRST, SECOND)["second minus first"].totals
    # Of four choices of signs all give a mean as far from zero: one of the two differences is none.
    assert mean[:5] == ("mean of sites", pytest.approx(0.3), None, None, 1.0)
    # 12 of 32 found against 24: 24/44 and 48/56.
    assert pooled[:2] == ("all notes, pooled", pytest.approx(48 / 56 - 24 / 44))


def test_difference_without_a_test_if_counts_per_note_are_missing() -> None:
    table = tables(FIRST, replace(SECOND, notes={}))["second minus first"]
    assert table.rows[0][:5] == ("harbour", pytest.approx(0.6), None, None, None)
    assert [row[0] for row in table.totals] == ["mean of sites"]


def test_runs_on_other_notes_are_not_tested() -> None:
    other = run("other", harbour=(1, 1, 1), hillside=(2, 2, 2, 2))
    assert tables(FIRST, other)["other minus first"].rows[0][4] is None


def test_two_trainings_at_one_site_are_the_same_site() -> None:
    left = a_run("a", sites={"a": scored(1, 0, 3)}, notes={"a": notes(1)})
    right = a_run("b", sites={"b": scored(4, 0, 0)}, notes={"b": notes(4)})
    table = tables(left, right)["b minus a"]
    assert table.rows[0][:2] == ("a", pytest.approx(0.6))
    assert (table.totals, table.note) == ((), "")
    assert tables(left, right)["The runs"].note.startswith("The mean is over the only site of each run;")


def test_settings_that_differ() -> None:
    other = replace(SECOND, study='[study]\nname = "<tiny>"\nseed = 8\n[model]\nshared = ["words", "lstm"]\n')
    assert tables(FIRST, other)["Settings that differ"].rows == (
        ("[study] seed", "7", "8"),
        ("[model] shared", "–", "words, lstm"),
    )
    assert tables(FIRST, SECOND)["Settings that differ"].note == "The study files are identical."


def test_settings_of_a_site_differ_one_by_one() -> None:
    study = '[sites.harbour]\nscheme = "BIO"\npooled = {}\n[sites.harbour.names]\nADE = "Effect"\n'
    first, other = replace(FIRST, study=study.format("true")), replace(SECOND, study=study.format("false"))
    assert tables(first, other)["Settings that differ"].rows == (("[sites.harbour] pooled", "true", "false"),)


def test_costs() -> None:
    table = tables(replace(FIRST, up=5, down=6), SECOND)["Cost of each run"]
    assert table.rows[0][:4] == ("first", 3, 5, 6)
    assert table.rows[0][4:] == (6.0, 13.125)


def test_runs_with_the_same_name_get_a_number() -> None:
    assert tables(FIRST, FIRST)["The runs"].rows[1][0] == "first (2)"


def test_curves_over_rounds_and_over_bytes(tmp_path: Path) -> None:
    rounds = [a_round(number, up=310_000) for number in (1, 2)]
    events = [rounds[0], a_scoring(1, harbour=0.5), rounds[1], a_scoring(2, harbour=0.75)]
    sections = comparison_sections([FIRST, run("x", harbour=(1,), hillside=(1,), events=events)])
    assert [chart.name for section in sections for chart in section.charts] == [
        "f1-by-site-and-run",
        "development-f1-by-run",
        "development-f1-by-bytes",
    ]
    by_bytes = sections[2].charts[1].plot
    assert by_bytes is not None
    (axes,) = by_bytes.figure.axes
    spent = {float(x) for line in axes.lines for x in line.get_xdata()}
    assert set(axes.get_xticks()) - spent  # a scale of megabytes, not each amount that was ever sent
    write_page(tmp_path / "page.html", "Compared", sections)
    assert_self_contained(tmp_path / "page.html")


def test_runs_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(UsageError, match="second has not finished"):
        comparison_sections([FIRST, replace(SECOND, sites={})])
    other = replace(scored(1, 1, 1), counts={"relations": TypedCounts()})
    with pytest.raises(UsageError, match="different tasks"):
        comparison_sections([FIRST, a_run(sites={"harbour": other})])
