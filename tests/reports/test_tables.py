from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from wardround.reports.tables import Figures, Table, interval_cell, score_cell

TABLE = Table(
    "Scores <of> a|b",
    ("type", "F1", "support"),
    (("Drug", 0.66666, 1234), ("a|b [red] <script>", 1.0, 7), ("=1+1", 0.0, None)),
    totals=(("micro", 0.5, 1241),),
    note="Seen & counted.",
)


def shown(table: Table) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    console.print(table.to_rich())
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_markdown() -> None:
    assert TABLE.to_markdown() == (
        "**Scores \\<of\\> a\\|b**\n\n"
        "| type | F1 | support |\n"
        "| --- | ---: | ---: |\n"
        "| Drug | 0.667 | 1,234 |\n"
        "| a\\|b \\[red\\] \\<script\\> | 1.000 | 7 |\n"
        "| =1+1 | 0.000 |  |\n"
        "| micro | 0.500 | 1,241 |\n\n"
        "Seen & counted.\n"
    )


def test_csv_keeps_numbers_and_disarms_formulas() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert rows == [
        ["type", "F1", "support"],
        ["Drug", "0.66666", "1234"],
        ["a|b [red] <script>", "1.0", "7"],
        ["'=1+1", "0.0", ""],
        ["micro", "0.5", "1241"],
    ]


SEVERAL = Table(
    "T",
    ("site", "F1", "95% interval"),
    (
        ("east", Figures("0.667 ●", {"": 2 / 3, "own": "=yes"}), Figures("0.250–0.750", {"low": 0.25, "high": 0.75})),
        ("west", 0.5, ""),
    ),
)


def test_figures_become_separate_csv_columns() -> None:
    assert SEVERAL.to_csv().splitlines() == [
        "site,F1,F1 own,95% interval low,95% interval high",
        f"east,{2 / 3},'=yes,0.25,0.75",
        "west,0.5,,,",
    ]
    assert "| east | 0.667 ● | 0.250–0.750 |\n| west | 0.500 |  |" in SEVERAL.to_markdown()
    assert "<td>0.667 ●</td><td>0.250–0.750</td>" in SEVERAL.to_html()
    assert "0.667 ●" in shown(SEVERAL)
    assert SEVERAL.transpose("what").to_csv().splitlines()[0] == "what,east,east own,east low,east high,west"


def test_transposing_exchanges_rows_and_columns() -> None:
    table = Table("T", ("type", "east", "west"), (("Drug", 0.5, 2000), ("ADE", None, 7)), (("macro", "–", 1),), "Note.")
    turned = table.transpose("site")
    assert turned.columns == ("site", "Drug", "ADE", "macro")
    assert turned.rows == (("east", 0.5, None, "–"), ("west", 2000, 7, 1))
    assert (turned.title, turned.totals, turned.note) == ("T", (), "Note.")


def test_html_is_escaped() -> None:
    html = TABLE.to_html()
    assert "<script>" not in html
    assert "<caption><span>Scores &lt;of&gt; a|b</span></caption>" in html
    assert '<tr><th scope="row">Drug</th><td class="number">0.667</td><td class="number">1,234</td></tr>' in html
    assert '<tfoot><tr><th scope="row">micro</th>' in html
    assert '<p class="note">Seen &amp; counted.</p>' in html


def test_terminal_takes_no_markup_from_cells() -> None:
    output = shown(TABLE)
    assert "a|b [red] <script>" in output
    assert "0.667" in output and "1,234" in output and "Seen & counted." in output


@pytest.mark.parametrize("way", [Table.to_markdown, Table.to_csv, Table.to_html, shown])
def test_no_escape_code_survives(way: object) -> None:
    table = Table("t\x1b[2J", ("c\x1b[2J",), (("x\x1b[2J\x9b",),), note="n\x1b[2J")
    output = way(table)  # type: ignore[operator]
    assert "\x1b[2J" not in output and "\x9b" not in output


def test_a_table_without_rows_is_a_table() -> None:
    empty = Table("Nothing", ("type", "F1"), ())
    assert empty.to_csv() == "type,F1\n"
    assert "Nothing" in empty.to_html() and "Nothing" in shown(empty)


def test_line_ends_in_a_cell_do_not_break_the_row() -> None:
    assert "| a b |" in Table("t", ("c",), (("a\nb",),)).to_markdown()


def test_a_row_must_fit_its_columns() -> None:
    with pytest.raises(AssertionError, match="2 cells under 1 columns"):
        Table("t", ("c",), (("a", "b"),))


def test_long_text_may_be_broken_and_nothing_else() -> None:
    html = Table("t", ("a", "b", "c"), (("x", "short", "long enough to be broken on a narrow page"),)).to_html()
    assert '<td>short</td><td class="prose">long enough' in html


def test_a_score_and_its_ends() -> None:
    assert score_cell(2 / 3, (0.25, 0.75)) == Figures("0.667 (0.250–0.750)", {"": 2 / 3, "low": 0.25, "high": 0.75})
    assert score_cell(0.5, None) == Figures("0.500", {"": 0.5, "low": None, "high": None})
    assert score_cell(None, None) == Figures("–", {"": None, "low": None, "high": None})


def test_the_ends_alone() -> None:
    assert interval_cell((0.25, 2 / 3)) == Figures("0.250–0.667", {"low": 0.25, "high": 2 / 3})
    assert interval_cell(None) == Figures("", {"low": None, "high": None})


def test_records_have_unrounded_numbers_and_the_columns_of_the_csv_file() -> None:
    rows = (("east", score_cell(1 / 3, (0.25, 0.5)), 1200), ("west", score_cell(None, None), None))
    table = Table("Scores", ("site", "F1", "notes"), rows, totals=(("all", "–", 1200),))
    assert table.to_records() == [
        {"site": "east", "F1": 1 / 3, "F1 low": 0.25, "F1 high": 0.5, "notes": 1200},
        {"site": "west", "F1": None, "F1 low": None, "F1 high": None, "notes": None},
        {"site": "all", "F1": "–", "notes": 1200},
    ]


def test_a_table_renders_itself_in_a_notebook() -> None:
    table = Table("t", ("type",), (("<b>",),))
    assert table._repr_html_() == table.to_html()


def test_a_wide_table_becomes_several_that_fit() -> None:
    columns = ("site", *(f"type{number}" for number in range(8)))
    table = Table("Scores", columns, (("harbour", *(0.5,) * 8),), (("mean", *(0.5,) * 8),), note="Below.")
    assert table.in_width(200) == (table,)
    # 7 + 3 + 1 for the names, then 5 + 3 for each column: three columns fit into 40.
    parts = table.in_width(40)
    assert [part.columns for part in parts] == [
        ("site", "type0", "type1", "type2"),
        ("site", "type3", "type4", "type5"),
        ("site", "type6", "type7"),
    ]
    assert [part.title for part in parts] == [f"Scores, part {number} of 3" for number in (1, 2, 3)]
    assert [part.note for part in parts] == ["", "", "Below."]
    assert parts[2].totals == (("mean", 0.5, 0.5),)
    for part in parts:
        stream = io.StringIO()
        Console(file=stream, width=40).print(part.to_rich())
        lines = stream.getvalue().splitlines()
        assert "…" not in "".join(lines) and max(map(len, lines)) <= 40
    assert Table("x", ("a", "b"), (("n" * 50, 1),)).in_width(10) == (Table("x", ("a", "b"), (("n" * 50, 1),)),)
