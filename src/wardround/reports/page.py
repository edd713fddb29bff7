"""A report as one self-contained HTML page, and as files: Markdown, CSV tables, and charts as SVG and PNG.

The page loads nothing from the network and is laid out for screen, phone and paper.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.reports.marked_notes import Excerpt
from wardround.reports.plots import Plot
from wardround.reports.tables import Table
from wardround.text.plain_text import html_text, neutralise

__all__ = ["Chart", "ReportFiles", "Section", "figures_html", "render_page", "write_page", "write_report"]

# Even if foreign content got into the page, the browser would neither load nor run it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_BLANK_LINE = re.compile(r"\n\s*\n")
_NOT_IN_FILE_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_FILE_NAME = 60

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --band: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --ink: #e6e9ec; --soft: #a2abb5; --line: #3a424c; --band: #1d232a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .75rem; padding-top: 1rem;
  border-top: 1px solid var(--line); overflow-wrap: anywhere; }
p { max-width: 44rem; margin: .5rem 0; overflow-wrap: anywhere; }
nav ol { margin: 0; padding: .75rem 1rem .75rem 2.25rem; background: var(--band); border-radius: .4rem; }
nav li { break-inside: avoid; }
nav a { color: inherit; }
@media (min-width: 48rem) { nav ol { columns: 3; } }
.scroll { overflow-x: auto; margin: 1rem 0 .25rem; }
table { min-width: min(100%, 22rem); border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0 0 .4rem; }
caption span { display: inline-block; position: sticky; left: 0; max-width: calc(100vw - 2rem); }
th, td { padding: .3rem .7rem; text-align: left; border-bottom: 1px solid var(--line); font-weight: 400; }
thead th { color: var(--soft); border-bottom-width: 2px; vertical-align: bottom; }
tbody th, tfoot th { position: sticky; left: 0; background: var(--paper); min-width: 5.5rem; max-width: 14rem;
  overflow-wrap: break-word; }
td { white-space: nowrap; }
td.prose { white-space: normal; min-width: 14rem; max-width: 42rem; overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; }
tfoot th, tfoot td { font-weight: 600; }
tfoot tr:first-child > * { border-top: 2px solid var(--line); }
figcaption { margin-top: .3rem; }
.note, figcaption { color: var(--soft); font-size: .88rem; }
.charts { display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; }
.excerpt { margin: 1rem 0; padding: .6rem .9rem; border-left: 3px solid var(--line); max-width: 48rem; }
.excerpt p { white-space: pre-wrap; line-height: 1.9; max-width: none; }
.excerpt mark { color: inherit; background: none; padding: .1rem .15rem; border-radius: .2rem; border: 1px solid; }
.excerpt mark.right { border-color: #0072b2; }
.excerpt mark.missed { border-style: dashed; border-color: #d55e00; }
.excerpt mark.spurious { border-style: dotted; border-width: 2px; border-color: #cc79a7; }
.excerpt small { font-size: .75rem; color: var(--soft); }
.listing { font: .82rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--band);
  padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; }
figure img { display: block; max-width: 100%; height: auto; background: #ffffff; padding: .5rem;
  border: 1px solid var(--line); border-radius: .4rem; }
@media (max-width: 40rem) { th, td { padding: .25rem .45rem; } }
@media print {
  :root { --paper: #ffffff; --ink: #000000; --soft: #333333; --line: #999999; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h2, h2 + p { break-after: avoid; }
  .scroll, .listing { overflow: visible; }
  .listing { white-space: pre-wrap; background: none; padding: 0; font-size: 8pt; }
  .charts { display: block; }
  table, tr, figure, .excerpt { break-inside: avoid; }
  tfoot { display: table-row-group; } /* otherwise totals are repeated on every sheet */
  tbody th, tfoot th { position: static; }
  figure { margin-bottom: 1rem; }
  th, td { padding: .15rem .4rem; }
  figure img { border: 0; padding: 0; max-width: 16cm; max-height: 22cm; }
}
"""


# Styles of charts in a notebook, in the elements themselves.
_NOTEBOOK_GRID = "display: flex; flex-wrap: wrap; gap: 1em; margin: 1em 0"
_NOTEBOOK_FIGURE = (
    "flex: none; margin: 0; width: 440px; max-width: 100%; background: #ffffff; color: #1b1f24; font-size: .9em"
)


@dataclass(frozen=True, slots=True)
class Chart:
    """An SVG image with a caption and a text alternative."""

    svg: str
    caption: str
    name: str = ""  # base name of its files
    alt: str = ""  # what the image shows, in words; without it the caption is used
    plot: Plot | None = None  # for other file formats

    @classmethod
    def from_plot(cls, plot: Plot, name: str, caption: str, *, alt: str = "") -> Chart:
        """Draw a plot."""
        return cls(plot.to_svg(), caption, name, alt, plot)

    def to_html(self) -> str:
        """Return a `<figure>`; the image is data in it, so that its ids cannot clash and no script in it can run."""
        data = b64encode(self.svg.encode()).decode()
        image = f'<img src="data:image/svg+xml;base64,{data}" alt="{html_text(self.alt or self.caption)}">'
        return f"<figure>{image}<figcaption>{html_text(self.caption)}</figcaption></figure>"

    def _repr_html_(self) -> str:
        return figures_html([self])


def figures_html(charts: Sequence[Chart]) -> str:
    """Return charts side by side for a notebook, which has no style sheet of ours; each is on white paper."""
    figures = "".join(chart.to_html() for chart in charts)
    styled = figures.replace("<figure><img ", f'<figure style="{_NOTEBOOK_FIGURE}"><img style="width: 100%" ')
    return f'<div style="{_NOTEBOOK_GRID}">{styled}</div>' if charts else ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with text, tables, charts, marked notes and a listing."""

    heading: str
    text: str = ""  # plain text; blank lines separate paragraphs
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    listing: str = ""  # preformatted text


@dataclass(frozen=True)
class ReportFiles:
    """The files that `write_report` wrote."""

    page: Path
    markdown: Path
    tables: tuple[Path, ...]
    charts: tuple[Path, ...]


def write_report(folder: Path, title: str, sections: Sequence[Section]) -> ReportFiles:
    """Write the page, its Markdown, its tables as CSV and its charts below `folder`; replace an earlier report."""
    page, markdown, tables, charts = folder / "report.html", folder / "report.md", list[Path](), list[Path]()
    folder.mkdir(parents=True, exist_ok=True)
    titled = [(f"{s.heading} {table.file or table.title}", table) for s in sections for table in s.tables]
    for name, (_, table) in zip(_file_names(title for title, _ in titled), titled, strict=True):
        path = folder / "tables" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(table.to_csv(), encoding="utf-8")
        tables.append(path)
    drawn = [chart for section in sections for chart in section.charts]
    for name, chart in zip(_file_names(chart.name for chart in drawn), drawn, strict=True):
        path = folder / "charts" / f"{name}.svg"
        path.parent.mkdir(exist_ok=True)
        path.write_text(chart.svg, encoding="utf-8")
        charts.append(path)
        if chart.plot is not None:
            image = path.with_suffix(".png")
            image.write_bytes(chart.plot.to_png(dpi=300))
            charts.append(image)
    markdown.write_text("\n".join(_markdown_parts(title, sections)), encoding="utf-8")
    write_page(page, title, sections)
    return ReportFiles(page, markdown, tuple(tables), tuple(charts))


def _markdown_parts(title: str, sections: Sequence[Section]) -> Iterator[str]:
    yield f"# {_markdown_line(title)}\n"
    charts = iter(_file_names(chart.name for section in sections for chart in section.charts))
    for section in sections:
        yield f"## {_markdown_line(section.heading)}\n"
        if section.text:
            yield neutralise(section.text.strip()) + "\n"
        yield from (excerpt.to_markdown() for excerpt in section.excerpts)
        yield from (table.to_markdown() for table in section.tables)
        yield from (f"![{_markdown_line(chart.caption)}](charts/{next(charts)}.svg)\n" for chart in section.charts)
        if section.listing:
            yield f"```toml\n{neutralise(section.listing).strip()}\n```\n"


def _file_names(titles: Iterable[str]) -> list[str]:
    """Return distinct file names for titles; the later of two equal ones gets a number."""
    names: list[str] = []
    for title in titles:
        base = _NOT_IN_FILE_NAMES.sub("-", title.lower()).strip("-")[:_LONGEST_FILE_NAME].strip("-") or "unnamed"
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return names


def _markdown_line(text: str) -> str:
    return " ".join(neutralise(text).split()).replace("[", "(").replace("]", ")")


def write_page(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page; the file appears under its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(render_page(title, sections), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return the HTML of the page."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
        f"<h1>{html_text(title)}</h1>",
    ]
    if len(sections) > 2:
        entries = (
            f'<li><a href="#section-{n}">{html_text(s.heading)}</a></li>' for n, s in enumerate(sections, start=1)
        )
        parts.append(f'<nav aria-label="Contents"><ol>{"".join(entries)}</ol></nav>')
    for number, section in enumerate(sections, start=1):
        parts += _section_parts(section, number)
    return "\n".join([*parts, "</main>\n</body>\n</html>\n"])


def _section_parts(section: Section, number: int) -> Iterator[str]:
    yield f'<section>\n<h2 id="section-{number}">{html_text(section.heading)}</h2>'
    for paragraph in _BLANK_LINE.split(section.text.strip()):
        if paragraph:
            yield f"<p>{html_text(paragraph)}</p>"
    for excerpt in section.excerpts:
        yield excerpt.to_html()
    for table in section.tables:
        # Focusable, so that a wide table can be scrolled with the keyboard.
        label = html_text(table.title)
        yield f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table.to_html()}</div>'
    if section.charts:
        yield f'<div class="charts">{"".join(chart.to_html() for chart in section.charts)}</div>'
    if section.listing:
        yield f'<pre class="listing" tabindex="0">{html_text(section.listing)}</pre>'
    yield "</section>"
