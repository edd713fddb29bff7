"""One HTML page with everything in it: it asks nothing of the network, on screen, phone and paper."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from wardround.reports.excerpts import Excerpt
from wardround.reports.plain_text import neutralise
from wardround.reports.plots import Plot
from wardround.reports.tables import Table

__all__ = ["Drawing", "Section", "render_page", "write_page"]

# Even if something foreign slipped into the page, the browser would neither load nor run it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_BLANK_LINE = re.compile(r"\n\s*\n")

_LOOK = """
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
.drawings { display: grid; gap: 1rem; margin: 1rem 0;
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
  .drawings { display: block; }
  table, tr, figure, .excerpt { break-inside: avoid; }
  tfoot { display: table-row-group; } /* else totals are repeated on every sheet */
  tbody th, tfoot th { position: static; }
  figure { margin-bottom: 1rem; }
  th, td { padding: .15rem .4rem; }
  figure img { border: 0; padding: 0; max-width: 16cm; max-height: 22cm; }
}
"""


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG and what it shows; `told` says in words what is seen, for those who cannot see it."""

    svg: str
    caption: str
    name: str = ""  # of its files, where it gets any
    told: str = ""  # else the caption serves
    plot: Plot | None = None  # what it was drawn from

    @classmethod
    def of(cls, plot: Plot, name: str, caption: str, *, told: str = "") -> Drawing:
        """A plot, kept for other formats."""
        return cls(plot.to_svg(), caption, name, told, plot)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, paragraphs of plain text parted by blank lines, tables, drawings, notes with their mentions."""

    heading: str
    prose: str = ""
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    listing: str = ""  # text to be shown as it is


def write_page(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page; it appears under its name only once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(render_page(title, sections), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def render_page(title: str, sections: Sequence[Section]) -> str:
    """The page as text."""
    return "\n".join(_page_parts(title, sections)) + "\n"


def _page_parts(title: str, sections: Sequence[Section]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_safe(title)}</title>\n<style>{_LOOK}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{_safe(title)}</h1>"
    if len(sections) > 2:
        yield _contents(sections)
    for number, section in enumerate(sections, start=1):
        yield from _section_parts(section, number)
    yield "</main>\n</body>\n</html>"


def _contents(sections: Sequence[Section]) -> str:
    entries = (f'<li><a href="#section-{n}">{_safe(s.heading)}</a></li>' for n, s in enumerate(sections, start=1))
    return f'<nav aria-label="Contents"><ol>{"".join(entries)}</ol></nav>'


def _section_parts(section: Section, number: int) -> Iterator[str]:
    yield f'<section>\n<h2 id="section-{number}">{_safe(section.heading)}</h2>'
    for paragraph in _BLANK_LINE.split(section.prose.strip()):
        if paragraph:
            yield f"<p>{_safe(paragraph)}</p>"
    for excerpt in section.excerpts:
        yield excerpt.to_html()
    for table in section.tables:
        # Focusable, so that a wide table can be scrolled with the keyboard.
        label = escape(neutralise(table.title))
        yield f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table.to_html()}</div>'
    if section.drawings:
        yield f'<div class="drawings">{"".join(_figure(drawing) for drawing in section.drawings)}</div>'
    if section.listing:
        yield f'<pre class="listing" tabindex="0">{_safe(section.listing)}</pre>'
    yield "</section>"


def _figure(drawing: Drawing) -> str:
    # As an image, not inline: its ids cannot clash with another drawing's, and no script in it would run.
    data = b64encode(drawing.svg.encode()).decode()
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{_safe(drawing.told or drawing.caption)}">'
    return f"<figure>{image}<figcaption>{_safe(drawing.caption)}</figcaption></figure>"


def _safe(text: str) -> str:
    return escape(neutralise(text))
