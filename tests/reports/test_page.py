from __future__ import annotations

import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.reports.pages import assert_self_contained

from wardround.reports.marked_notes import Excerpt
from wardround.reports.page import Chart, Section, figures_html, render_page, write_page, write_report
from wardround.reports.plots import Labels, learning_curves
from wardround.reports.tables import Table
from wardround.text.document import Document, Entity, Range

EVIL = "<script>alert(1)</script> \" onload='x' &"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"/>'
TABLE = Table("Scores", ("type", "F1"), (("Drug", 0.5),))
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Outline(HTMLParser):
    """Every start tag with its attributes; fails where tags are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_page_loads_nothing_from_the_network() -> None:
    svg = learning_curves({"a": [(1, 0.5)]}, Labels("t", "x", "y")).to_svg()
    page = render_page("Study", [Section("Result", "Text.", (TABLE,), (Chart(svg, "A curve."),))])
    outline = Outline(page)
    policy = outline.attributes("meta")[1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "http:" not in page and "https:" not in page and "url(" not in page
    assert {tag for tag, _ in outline.tags}.isdisjoint({"script", "link", "iframe", "object", "form"})
    assert all(str(image["src"]).startswith("data:image/svg+xml;base64,") for image in outline.attributes("img"))


def test_charts_are_embedded_with_a_text_alternative() -> None:
    (image,) = Outline(render_page("t", [Section("h", charts=(Chart(SVG, "What it shows."),))])).attributes("img")
    assert b64decode(str(image["src"]).split(",")[1]).decode() == SVG
    assert image["alt"] == "What it shows."


def test_a_chart_can_have_its_own_text_alternative() -> None:
    plot = learning_curves({"a": [(1, 0.5)]}, Labels("t", "x", "y"))
    chart = Chart.from_plot(plot, "a-curve", "A curve.", alt="One point, 0.5.")
    page = render_page("t", [Section("h", charts=(chart,))])
    assert Outline(page).attributes("img")[0]["alt"] == "One point, 0.5."
    assert "<figcaption>A curve.</figcaption>" in page
    assert chart.plot is plot


def test_text_as_it_is_and_notes_with_their_mentions() -> None:
    note = Document("n", EVIL, (Entity("T1", "Drug", (Range(0, 8),)),))
    page = render_page("t", [Section("h", excerpts=(Excerpt(EVIL, note, note),), listing=f"[a]\nb = {EVIL}")])
    outline = Outline(page)
    assert not outline.attributes("script")
    assert [mark["class"] for mark in outline.attributes("mark")] == ["right"]
    assert '<pre class="listing" tabindex="0">[a]\nb = &lt;script&gt;' in page


def test_everything_is_escaped() -> None:
    table = Table(EVIL, (EVIL,), ((EVIL,),), note=EVIL)
    page = render_page(EVIL, [Section(EVIL, EVIL, (table,), (Chart(SVG, EVIL),))] * 3)
    outline = Outline(page)
    assert not outline.attributes("script")
    assert not any("onload" in attributes for _, attributes in outline.tags)


def test_prose_becomes_paragraphs() -> None:
    page = render_page("t", [Section("h", "One\ngoes on.\n\n \nTwo.\n")])
    assert re.findall(r"<p>(.*?)</p>", page, flags=re.DOTALL) == ["One\ngoes on.", "Two."]


@pytest.mark.parametrize(("count", "expected"), [(2, 0), (3, 3)])
def test_a_longer_page_has_contents(count: int, expected: int) -> None:
    outline = Outline(render_page("t", [Section(f"Part {n}") for n in range(count)]))
    links = [str(link["href"]) for link in outline.attributes("a")]
    assert len(links) == expected
    assert set(links) <= {f"#{heading['id']}" for heading in outline.attributes("h2")}


def test_write_page(tmp_path: Path) -> None:
    path = tmp_path / "run" / "report.html"
    write_page(path, "Café", [])
    assert "<h1>Café</h1>" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_same_data_same_page() -> None:
    sections = [Section("h", "Text.", (TABLE,))]
    assert render_page("t", sections) == render_page("t", sections)


SITE_TABLE = Table("By site", ("site", "F1"), (("harbour", 1 / 3),))
PLOT = learning_curves({"a": [(1, 0.5), (2, 0.75)]}, Labels("Curve", "round", "F1"))
SECTIONS = [
    Section(
        "Scores",
        "In words.",
        (SITE_TABLE, SITE_TABLE),
        (Chart.from_plot(PLOT, "A curve!", "Rises"), Chart("<svg/>", "Old")),
    ),
    Section("Rest", excerpts=(Excerpt("Nobody's", Document("n", "text"), Document("n", "text")),), listing="seed = 7"),
]


def test_all_files(tmp_path: Path) -> None:
    written = write_report(tmp_path / "out", "Study [x]", SECTIONS)
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
    (path,) = write_report(tmp_path, "Study", [Section("Who", tables=(table,))]).tables
    assert path.name == "who-part-of-each-site.csv"


def test_the_markdown(tmp_path: Path) -> None:
    text = write_report(tmp_path, "Study [x]", SECTIONS).markdown.read_text()
    assert text.startswith("# Study (x)\n\n## Scores\n\nIn words.\n\n**By site**\n")
    assert "| harbour | 0.333 |" in text
    assert "![Rises](charts/a-curve.svg)" in text
    assert "> Nobody's:\n>\n> text\n" in text
    assert "```toml\nseed = 7\n```" in text


def test_a_report_is_written_again_over_an_older_one(tmp_path: Path) -> None:
    write_report(tmp_path, "Old", SECTIONS)
    assert "<h1>New</h1>" in write_report(tmp_path, "New", SECTIONS).page.read_text()


def test_charts_stand_side_by_side_in_a_notebook_as_images_that_load_nothing() -> None:
    chart = Chart(SVG, f"A {EVIL}", alt="Curve")
    shown = figures_html([chart, chart])
    outline = Outline(shown)
    images = outline.attributes("img")
    assert [image["alt"] for image in images] == ["Curve", "Curve"]
    assert all(b64decode((image["src"] or "").partition("base64,")[2]).decode() == SVG for image in images)
    assert {tag for tag, _ in outline.tags} == {"div", "figure", "img", "figcaption"}
    assert chart._repr_html_() == figures_html([chart])
    assert figures_html([]) == ""
