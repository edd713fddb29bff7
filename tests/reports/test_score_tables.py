from __future__ import annotations

import pytest

from wardround.evaluation.counts import SpanCounts, TagSetScores, TypedCounts
from wardround.evaluation.entity_scores import Confusion, CorpusScore, score_corpus
from wardround.evaluation.leakage import HidingScore
from wardround.evaluation.significance import Interval
from wardround.reports.score_tables import (
    confusion_table,
    counts_table,
    hiding_table,
    main_note,
    muc_table,
    score_table,
    score_tables,
    tag_set_table,
)
from wardround.reports.tables import Cell, Figures, Row
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


def test_entities_are_one_table_with_both_readings(score: CorpusScore) -> None:
    tables = score_tables({"strict": score.strict, "relaxed": score.relaxed}, title="By type", note="Well.")
    (table,) = tables
    expected = score_table(score)
    assert (table.title, table.note) == ("By type", "Well.")
    assert (table.columns, table.rows, table.totals) == (expected.columns, expected.rows, expected.totals)
    assert score_tables({"strict": score.strict, "relaxed": score.relaxed})[0].note == ""


def test_any_other_task_has_a_table_a_reading() -> None:
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


def test_a_note_names_its_reading() -> None:
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
    assert table.note == "1 of 8 notes have at least one word missed (12.5%)."


def test_a_reading_beside_those_of_entities_has_a_table_of_its_own() -> None:
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
def test_of_many_sites_each_has_a_row(count: int, first: str) -> None:
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
