from __future__ import annotations

from pathlib import Path

from tests.reports.pages import assert_self_contained

from wardround.reports.bundle import write_bundle
from wardround.reports.excerpts import Excerpt
from wardround.reports.page import Drawing, Section
from wardround.reports.plots import Labels, learning_curves
from wardround.reports.tables import Table
from wardround.text.document import Document

TABLE = Table("By site", ("site", "F1"), (("harbour", 1 / 3),))
PLOT = learning_curves({"a": [(1, 0.5), (2, 0.75)]}, Labels("Curve", "round", "F1"))
SECTIONS = [
    Section("Scores", "In words.", (TABLE, TABLE), (Drawing.of(PLOT, "A curve!", "Rises"), Drawing("<svg/>", "Old"))),
    Section("Rest", excerpts=(Excerpt("Nobody's", Document("n", "text"), Document("n", "text")),), listing="seed = 7"),
]


def test_all_files(tmp_path: Path) -> None:
    written = write_bundle(tmp_path / "out", "Study [x]", SECTIONS)
    assert [path.name for path in written.tables] == ["scores-by-site.csv", "scores-by-site-2.csv"]
    assert [path.name for path in written.charts] == ["a-curve.svg", "a-curve.png", "unnamed.svg"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "charts",
        "report.html",
        "report.md",
        "tables",
    ]
    assert written.tables[0].read_text() == f"site,F1\nharbour,{1 / 3}\n"  # unrounded
    assert written.charts[0].read_text() == PLOT.to_svg()
    assert written.charts[1].read_bytes().startswith(b"\x89PNG")
    assert_self_contained(written.page)


def test_a_table_may_name_its_file(tmp_path: Path) -> None:
    table = Table("Part of each site in 3 rounds", ("site",), (("harbour",),), file="Part of each site")
    (path,) = write_bundle(tmp_path, "Study", [Section("Who", tables=(table,))]).tables
    assert path.name == "who-part-of-each-site.csv"


def test_the_markdown(tmp_path: Path) -> None:
    text = write_bundle(tmp_path, "Study [x]", SECTIONS).markdown.read_text()
    assert text.startswith("# Study (x)\n\n## Scores\n\nIn words.\n\n**By site**\n")
    assert "| harbour | 0.333 |" in text
    assert "![Rises](charts/a-curve.svg)" in text
    assert "> Nobody's:\n>\n> text\n" in text
    assert "```toml\nseed = 7\n```" in text


def test_a_report_is_written_again_over_an_older_one(tmp_path: Path) -> None:
    write_bundle(tmp_path, "Old", SECTIONS)
    assert "<h1>New</h1>" in write_bundle(tmp_path, "New", SECTIONS).page.read_text()
