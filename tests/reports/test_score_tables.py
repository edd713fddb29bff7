from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.reports.run_records import SITES, Scored, annotating, scored

from wardround.evaluation.counts import SpanCounts, TagSetScores, TypedCounts
from wardround.evaluation.entity_scores import Confusion, CorpusScore, score_corpus
from wardround.evaluation.leakage import HidingScore, LeakageScore, TypeLeakage
from wardround.evaluation.significance import Interval
from wardround.reports.score_tables import (
    confusion_table,
    counts_table,
    hiding_table,
    leakage_tables,
    main_note,
    muc_table,
    score_table,
    score_tables,
    site_leakage_tables,
    study_table,
    study_tables,
    tag_set_table,
    type_table,
)
from wardround.reports.tables import Cell, Figures, Row, interval_cell
from wardround.text.document import Document, Entity, Range


@pytest.fixture
def score() -> CorpusScore:
    """Drug: one right, one displaced. ADE: one missed."""

    def note(*mentions: tuple[str, int, int]) -> Document:
        return Document("n", "x" * 40, tuple(Entity(str(i), t, (Range(a, b),)) for i, (t, a, b) in enumerate(mentions)))

    gold = note(("Drug", 0, 5), ("Drug", 10, 15), ("ADE", 20, 25))
    return score_corpus([(gold, note(("Drug", 0, 5), ("Drug", 11, 15)))])


def test_score_table(score: CorpusScore) -> None:
    table = score_table(score, micro_f1=Interval(0.4, 0.25, 0.625))
    assert table.rows == (
        ("ADE", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1),
        ("Drug", 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 2),
    )
    micro, macro = table.totals
    # Strict: tp 1, fp 1, fn 2. Relaxed: tp 2, fp 0, fn 1.
    assert micro == ("micro", 0.5, pytest.approx(1 / 3), 0.4, 1.0, pytest.approx(2 / 3), 0.8, 3)
    assert macro == ("macro", 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 3)
    assert table.note == "Strict micro-F1 0.400 (95% interval 0.250–0.625); documents: 1."
    assert score_table(score).note == ""


def test_counts_table() -> None:
    table = counts_table(TypedCounts({"Causes": SpanCounts(3, 1, 0)}))
    assert table.rows == (("Causes", 0.75, 1.0, pytest.approx(6 / 7), 4, 3),)
    assert [row[0] for row in table.totals] == ["micro", "macro"]


def test_strict_and_relaxed_scores_share_one_table(score: CorpusScore) -> None:
    tables = score_tables({"strict": score.strict, "relaxed": score.relaxed}, title="By type", note="Well.")
    (table,) = tables
    expected = score_table(score)
    assert (table.title, table.note) == ("By type", "Well.")
    assert (table.columns, table.rows, table.totals) == (expected.columns, expected.rows, expected.totals)
    assert score_tables({"strict": score.strict, "relaxed": score.relaxed})[0].note == ""


def test_other_tasks_have_one_table_per_matching_mode() -> None:
    counts = {
        "strict": TypedCounts({"causes": SpanCounts(1, 1, 2)}),
        "entities": TypedCounts({"Drug": SpanCounts(3, 0, 1)}),
        "given entities": TypedCounts({"causes": SpanCounts(2, 0, 1)}),
    }
    tables = score_tables(counts, title="tiny on ward", note="Well.")
    assert [table.title for table in tables] == [f"tiny on ward: {reading}" for reading in counts]
    assert [table.note for table in tables] == ["Well.", "", ""]  # of the main reading
    assert tables[0].rows == (("causes", 0.5, pytest.approx(1 / 3), pytest.approx(2 / 5), 2, 3),)
    assert tables[1].rows == (("Drug", 1.0, 0.75, pytest.approx(6 / 7), 3, 4),)
    (alone,) = score_tables({"relations": counts["strict"]})
    assert alone.title == "Scores: relations"
    assert alone.totals[0] == ("micro", 0.5, pytest.approx(1 / 3), pytest.approx(2 / 5), 2, 3)


def test_the_note_names_the_matching_mode() -> None:
    said = main_note("relations", Interval(0.5, 0.25, 0.75), 1234)
    assert said == "Relations micro-F1 0.500 (95% interval 0.250–0.750); documents: 1,234."


def test_muc_table(score: CorpusScore) -> None:
    rows = muc_table(score.muc).rows
    assert rows[0] == ("all types", "strict", 1, 1, 0, 1, 0, 0.5, pytest.approx(1 / 3), 0.4)
    assert rows[2] == ("all types", "partial", 1, 0, 1, 1, 0, 0.75, 0.5, 0.6)
    assert [row[0] for row in rows[4::4]] == ["ADE", "Drug"]


def test_confusion_table() -> None:
    table = confusion_table(Confusion({("A", "B"): 2, ("B", None): 1, (None, "A"): 3}))
    assert table.columns == ("gold, predicted", "A", "B", "missed")
    assert table.rows == (("A", 0, 2, 0), ("B", 0, 0, 1), ("spurious", 3, 0, None))


def test_hiding_table() -> None:
    table = hiding_table(HidingScore(SpanCounts(3, 0, 1), SpanCounts(9, 1, 3), notes=8, leaking_notes=1))
    assert table.rows[0] == ("words", 1.0, 0.75, pytest.approx(6 / 7), 1, 4)
    assert table.rows[1][4:] == (3, 12)
    assert table.note == "1 of 8 notes have at least one missed word (12.5%)."


def test_another_matching_mode_has_its_own_table() -> None:
    counts = {reading: TypedCounts({"NAME": SpanCounts(1, 0, 1)}) for reading in ("strict", "relaxed", "words")}
    first, words = score_tables(counts, title="t", note="n")
    assert (first.title, first.note, words.title, words.note) == ("t", "n", "t: words", "")
    assert first.rows[0][:4] == ("NAME", 1.0, 0.5, pytest.approx(2 / 3))
    assert words.rows == (("NAME", 1.0, 0.5, pytest.approx(2 / 3), 1, 2),)


# F1 of Drug 3/4, of ADE 1/2; what is nowhere has none.
EAST = TagSetScores(
    TypedCounts({"Drug": SpanCounts(3, 1, 1), "ADE": SpanCounts(1, 0, 2)}), ("Drug", "Dose"), ("Drug", "Dose", "ADE")
)
WEST = TagSetScores(TypedCounts({"ADE": SpanCounts(2, 0, 0)}), ("ADE",), ("ADE",))


def texts(rows: tuple[Row, ...]) -> list[tuple[Cell, ...]]:
    """What a reader sees."""
    return [tuple(cell.text if isinstance(cell, Figures) else cell for cell in row) for row in rows]


def test_types_by_site_by_hand() -> None:
    table = tag_set_table({"east": EAST, "west": WEST})
    assert table.columns == ("type", "east", "west")
    assert texts(table.rows) == [("Drug", "0.750 ●", ""), ("Dose", "– ●", ""), ("ADE", "0.500", "1.000 ●")]
    assert texts(table.totals) == [
        ("macro, all", "0.625", "1.000"),
        ("macro, annotated ●", "0.750", "1.000"),
        ("macro, not annotated", "0.500", "–"),
    ]
    assert table.note.startswith("● the site annotates the type in its training notes; empty: its test notes are not")


@pytest.mark.parametrize(("count", "first"), [(12, "type"), (13, "site")])
def test_many_sites_have_a_row_each(count: int, first: str) -> None:
    table = tag_set_table({f"h{number}": WEST for number in range(count)})
    assert table.columns[0] == first
    if first == "site":
        assert table.columns[1:] == ("ADE", "macro, all", "macro, annotated ●", "macro, not annotated")
        assert texts(table.rows)[12] == ("h12", "1.000 ●", "1.000", "1.000", "–")
        assert table.to_csv().splitlines()[13] == "h12,1.0,yes,1.0,1.0,"


def test_types_by_site_in_a_csv_are_numbers_and_marks_of_their_own() -> None:
    assert tag_set_table({"east": EAST, "west": WEST}).to_csv().splitlines()[:4] == [
        "type,east,east annotated,west,west annotated",
        "Drug,0.75,yes,,no",
        "Dose,,yes,,no",
        "ADE,0.5,no,1.0,yes",
    ]


EAST_LEAKAGE = LeakageScore(
    HidingScore(SpanCounts(9, 1, 3), SpanCounts(40, 2, 10), notes=4, leaking_notes=1),
    {"CITY": TypeLeakage(2, 2, 0, 0), "NAME": TypeLeakage(6, 3, 2, 2)},
    exposed_notes=2,
)
WEST_LEAKAGE = LeakageScore(
    HidingScore(SpanCounts(3, 0, 0), SpanCounts(10, 0, 0), notes=6),
    {"NAME": TypeLeakage(2, 2, 0, 0)},
)


def test_of_one_model() -> None:
    words, types = leakage_tables(EAST_LEAKAGE)
    assert words.rows[0][:3] == ("words", 0.9, 0.75)
    assert types.rows == (("CITY", 2, 2, 0, 0, 1.0, 0), ("NAME", 6, 3, 2, 1, 0.5, 2))
    assert types.totals == (("all", 8, 5, 2, 1, 0.625, 2),)
    assert types.note.endswith("2 of 4 notes leak a mention (50.0%).")


def test_of_sites_whose_counts_are_added() -> None:
    sites, types = site_leakage_tables({"east": EAST_LEAKAGE, "west": WEST_LEAKAGE})
    assert sites.rows[0] == ("east", 4, 2, 0.5, 0.625, 0.75, 0.9, 0.8)
    assert sites.rows[1] == ("west", 6, 0, 0.0, 1.0, 1.0, 1.0, 1.0)
    # 7 of 10 mentions, 12 of 15 words of which 13 were marked, 50 of 60 characters.
    assert sites.totals[0] == ("all", 10, 2, 0.2, 0.7, 0.8, pytest.approx(12 / 13), pytest.approx(50 / 60))
    assert types.rows[1] == ("NAME", 8, 5, 2, 1, 0.625, 2)


def test_no_leakage_table_without_leakage_counts() -> None:
    assert site_leakage_tables({}) == ()


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


def test_the_table_of_a_task_with_one_or_three_matching_modes() -> None:
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


def test_sites_with_different_types_have_a_row_per_type() -> None:
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


def test_sites_with_equal_or_unknown_types_have_no_type_table() -> None:
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


def test_leakage_of_all_sites() -> None:
    leakage = LeakageScore(by_type={"NAME": TypeLeakage(7, 4, 2, 3)}, exposed_notes=3)
    sites = {name: replace(site, leakage=leakage) for name, site in SITES.items()}
    assert [table.title for table in study_tables(sites)[1:]] == [
        "Leakage on each site's test notes",
        "Leakage, all sites: mentions by type",
    ]


def test_scores_by_type_with_known_intervals() -> None:
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


def test_a_site_with_one_matching_mode() -> None:
    assert type_table(replace(scored(3, 1, 1), counts={"relations": TypedCounts()})).columns[3:] == (
        "relations F1",
        "95% interval",
        "gold",
    )
