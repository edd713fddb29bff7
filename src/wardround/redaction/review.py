"""The page for reviewing redacted notes: marks by type, and counts; it contains nothing of the original notes."""

from __future__ import annotations

import shutil
from collections import Counter
from html import escape
from pathlib import Path

from wardround.parsing import parse_json
from wardround.redaction.private_files import open_private
from wardround.redaction.replacing import Redacted
from wardround.reports.page import Section, render_page
from wardround.reports.tables import Row, Table
from wardround.text.palette import ink_on, type_colour
from wardround.text.plain_text import html_text, neutralise

__all__ = ["MOST_NOTES", "count_marks", "fragment", "write_review"]

MOST_NOTES = 1000  # browsers cannot show many more on one page
_END = "</main>"
_SHAPE = "white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; margin: .5rem 0;"


def fragment(id_: str, note: Redacted) -> str:
    """Return one redacted note as HTML."""
    # Neutralising keeps the number of characters, so offsets stay valid.
    parts: list[str] = []
    text, end = neutralise(note.text), 0
    for mark in note.marks:
        colour, label = type_colour(mark.type), html_text(mark.type)
        style = f"background: {colour}; color: {ink_on(colour)};"
        title = f"{label}, {' and '.join(mark.sources)}"
        shown = escape(text[mark.range.start : mark.range.end])
        parts.append(escape(text[end : mark.range.start]))
        parts.append(f'<mark style="{style}" title="{title}">{shown}<small> {label}</small></mark>')
        end = mark.range.end
    body = "".join((*parts, escape(text[end:])))
    return f'<section>\n<h2>{html_text(id_)}</h2>\n<pre style="{_SHAPE}">{body}</pre>\n</section>\n'


def count_marks(audit: Path) -> tuple[int, Counter[tuple[str, str]]]:
    """Return the number of notes in an audit file, and the marks by type and by what found them."""
    notes, marks = 0, Counter[tuple[str, str]]()
    with audit.open(encoding="utf-8") as lines:
        for line in lines:
            notes += 1
            marks.update((mark["type"], " and ".join(mark["found"])) for mark in parse_json(line)["marks"])
    return notes, marks


def write_review(path: Path, *, audit: Path, fragments: Path) -> None:
    """Write the page from the audit file and the notes' fragments; it gets its name when it is complete."""
    notes, marks = count_marks(audit)
    head, end, tail = render_page("Redacted notes", [_counts(notes, marks)]).rpartition(_END)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with open_private(partial, "wb") as page:
            page.write(head.encode())
            with fragments.open("rb") as shown:
                shutil.copyfileobj(shown, page)
            page.write((end + tail).encode())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _counts(notes: int, marks: Counter[tuple[str, str]]) -> Section:
    ways = ("model", "pattern", "model and pattern")
    types = sorted({type_ for type_, _ in marks})
    rows: tuple[Row, ...] = tuple(
        (t, *(marks[t, way] for way in ways), sum(marks[t, way] for way in ways)) for t in types
    )
    totals = tuple(sum(marks[t, way] for t in types) for way in ways)
    shown = f" The first {MOST_NOTES:,} are shown." if notes > MOST_NOTES else ""
    return Section(
        "Hidden text",
        f"{notes:,} notes.{shown} Marks show where text was replaced. Identifying text that was missed has no mark: "
        "read the text between the marks.",
        (Table("Marks", ("type", *ways, "all"), rows, (("all", *totals, sum(totals)),)),),
    )
