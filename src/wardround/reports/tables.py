"""Tables as plain data, and five ways to show one: terminal, Markdown, CSV, HTML and records for JSON."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

import rich.table
from rich.text import Text

from wardround.text.plain_text import neutralise

__all__ = ["Cell", "Figures", "Row", "Table", "interval_cell", "score_cell"]

_Plain: TypeAlias = str | int | float | None  # None is an empty cell


@dataclass(frozen=True, slots=True)
class Figures:
    """A cell that is one text for a reader and several columns of numbers in a CSV file.

    The key of each part is appended to the name of the column: for `0.500 (0.250–0.750)` under `F1`, the parts "",
    "low" and "high" are in the columns `F1`, `F1 low` and `F1 high`.
    """

    text: str
    parts: Mapping[str, _Plain]


def score_cell(score: float | None, interval: tuple[float, float] | None) -> Figures:
    """Return `0.500 (0.250–0.750)`, without brackets if the interval is unknown; a dash if there is no score."""
    low, high = interval or (None, None)
    brackets = "" if interval is None else f" ({interval_cell(interval).text})"
    text = "–" if score is None else f"{score:.3f}{brackets}"
    return Figures(text, {"": score, "low": low, "high": high})


def interval_cell(interval: tuple[float, float] | None) -> Figures:
    """Return `0.250–0.750`, or an empty text if the interval is unknown."""
    low, high = interval or (None, None)
    return Figures("" if interval is None else f"{low:.3f}–{high:.3f}", {"low": low, "high": high})


Cell: TypeAlias = _Plain | Figures
Row: TypeAlias = tuple[Cell, ...]
_Side: TypeAlias = Literal["left", "right"]

_SPECIAL_IN_MARKDOWN = re.compile(r"([\\|`*\[\]<>])")
_PADDING = 3  # characters of a column beside its text: two spaces and a line
_LONGEST_UNBROKEN = 36  # characters of a cell that a page keeps on one line
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Table:
    """A title, columns and rows, with optional total rows at the end and a note below."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    totals: tuple[Row, ...] = ()
    note: str = ""
    file: str = ""  # base name of its CSV file; needed where the title changes while a run goes on

    def __post_init__(self) -> None:
        for row in (*self.rows, *self.totals):
            assert len(row) == len(self.columns), f"a row of {len(row)} cells under {len(self.columns)} columns"

    def transpose(self, corner: str) -> Table:
        """Return the table with rows and columns exchanged, totals last; `corner` names the first column."""
        heads, *rows = zip(self.columns, *self.rows, *self.totals, strict=True)
        return Table(self.title, (corner, *map(_text, heads[1:])), tuple(rows), note=self.note, file=self.file)

    def in_width(self, width: int) -> tuple[Table, ...]:
        """Return the table, or several with some of the columns each if it is wider than `width` characters.

        The first column, which names the rows, is in each; a single column is never cut.
        """
        needed = [self._least_width(place, side) + _PADDING for place, side in enumerate(self._sides())]
        parts: list[list[int]] = [[]]
        used = start = needed[0] + 1
        for place in range(1, len(self.columns)):
            if parts[-1] and used + needed[place] > width:
                parts.append([])
                used = start
            parts[-1].append(place)
            used += needed[place]
        if len(parts) == 1:
            return (self,)

        def chosen(row: Row, places: list[int]) -> Row:
            return (row[0], *(row[place] for place in places))

        return tuple(
            Table(
                f"{self.title}, part {number} of {len(parts)}",
                (self.columns[0], *(self.columns[place] for place in places)),
                tuple(chosen(row, places) for row in self.rows),
                tuple(chosen(row, places) for row in self.totals),
                self.note if number == len(parts) else "",
            )
            for number, places in enumerate(parts, start=1)
        )

    def _least_width(self, place: int, side: _Side) -> int:
        """Return the characters that a column needs in a terminal: headings and text wrap, names and numbers do not."""
        cells = [_text(row[place]) for row in (*self.rows, *self.totals)]
        if side == "left" and place:
            cells = [word for cell in cells for word in cell.split()]
        return max(map(len, [*cells, *_line(self.columns[place]).split()]), default=0)

    def to_rich(self) -> rich.table.Table:
        """Return the table for a terminal."""
        shown = rich.table.Table(
            title=Text(_line(self.title)), caption=Text(_line(self.note)) if self.note else None, caption_justify="left"
        )
        for place, (name, side) in enumerate(zip(self.columns, self._sides(), strict=True)):
            # On a narrow terminal headings wrap, but neither row names nor numbers do.
            cells = [len(_text(row[place])) for row in (*self.rows, *self.totals)] if side == "right" else []
            width = max(cells, default=None)
            shown.add_column(Text(_line(name)), justify=side, no_wrap=place == 0, min_width=width)
        for row in self.rows:
            shown.add_row(*(Text(_text(cell)) for cell in row))
        if self.totals:
            shown.add_section()
        for row in self.totals:
            shown.add_row(*(Text(_text(cell)) for cell in row), style="bold")
        return shown

    def to_markdown(self) -> str:
        """Return the table in GitHub's Markdown, with title and note as paragraphs around it."""
        rule = " | ".join("---" if side == "left" else "---:" for side in self._sides())
        lines = [_markdown_row(self.columns), f"| {rule} |"]
        lines += [_markdown_row(row) for row in (*self.rows, *self.totals)]
        parts = [f"**{_markdown(self.title)}**", "\n".join(lines), _markdown(self.note)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_csv(self) -> str:
        """Return columns and rows with unrounded numbers, one per column, without title and note.

        Text that a spreadsheet would run as a formula gets a leading apostrophe.
        """
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        rows = (*self.rows, *self.totals)
        suffixes = [  # of the CSV columns that each column becomes; most become one
            list(dict.fromkeys(part for row in rows for part in _csv_parts(row[place]))) or [""]
            for place in range(len(self.columns))
        ]
        columns = zip(self.columns, suffixes, strict=True)
        writer.writerow(_csv_cell(f"{name} {part}" if part else name) for name, parts in columns for part in parts)
        for row in rows:
            cells = zip(map(_csv_parts, row), suffixes, strict=True)
            writer.writerow([_csv_cell(found.get(part)) for found, parts in cells for part in parts])
        return stream.getvalue()

    def to_records(self) -> list[dict[str, _Plain]]:
        """Return one dictionary per row, totals last, with unrounded numbers; empty cells are None.

        The keys are the columns of the CSV file.
        """
        records = []
        for row in (*self.rows, *self.totals):
            record: dict[str, _Plain] = {}
            for name, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Figures):
                    record |= {f"{name} {part}" if part else name: value for part, value in cell.parts.items()}
                else:
                    record[name] = cell
            records.append(record)
        return records

    def to_html(self) -> str:
        """Return an escaped `<table>`; numbers have the class `number`, long texts `prose`, totals are a `<tfoot>`."""
        sides = self._sides()
        headings = (f'<th scope="col"{_class(s)}>{_html(c)}</th>' for c, s in zip(self.columns, sides, strict=True))
        parts = [
            f"<table><caption><span>{_html(self.title)}</span></caption>",  # the span stays while the table scrolls
            f"<thead><tr>{''.join(headings)}</tr></thead>",
            f"<tbody>{''.join(_html_row(row, sides) for row in self.rows)}</tbody>",
        ]
        if self.totals:
            parts.append(f"<tfoot>{''.join(_html_row(row, sides) for row in self.totals)}</tfoot>")
        parts.append("</table>")
        if self.note:
            parts.append(f'<p class="note">{_html(self.note)}</p>')
        return "".join(parts)

    def _repr_html_(self) -> str:
        return self.to_html()

    def _sides(self) -> list[_Side]:
        """Return the alignment of each column: numbers right, others left."""
        cells = zip(*self.rows, *self.totals, strict=True) if self.rows or self.totals else [()] * len(self.columns)
        return ["left" if any(isinstance(cell, str | Figures) for cell in column) else "right" for column in cells]


def _line(text: str) -> str:
    return " ".join(neutralise(text).split("\n"))


def _text(cell: Cell) -> str:
    """Format a cell: scores with three decimals, counts with thousands separators."""
    if cell is None:
        return ""
    if isinstance(cell, Figures):
        return _line(cell.text)
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return f"{cell:,}" if isinstance(cell, int) else _line(cell)


def _markdown(text: str) -> str:
    return _SPECIAL_IN_MARKDOWN.sub(r"\\\1", _line(text))


def _markdown_row(cells: tuple[Cell, ...]) -> str:
    return f"| {' | '.join(_markdown(_text(cell)) for cell in cells)} |"


def _csv_parts(cell: Cell) -> Mapping[str, _Plain]:
    if isinstance(cell, Figures):
        return cell.parts
    return {} if cell in ("", None) else {"": cell}


def _csv_cell(cell: _Plain) -> _Plain:
    if not isinstance(cell, str):
        return cell
    text = neutralise(cell)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _html(text: str) -> str:
    return escape(_line(text))


def _class(side: _Side) -> str:
    return ' class="number"' if side == "right" else ""


def _html_row(row: Row, sides: list[_Side]) -> str:
    first = f'<th scope="row"{_class(sides[0])}>{_html(_text(row[0]))}</th>'
    rest = []
    for cell, side in zip(row[1:], sides[1:], strict=True):
        text = _text(cell)
        kind = ' class="prose"' if side == "left" and len(text) > _LONGEST_UNBROKEN else _class(side)
        rest.append(f"<td{kind}>{_html(text)}</td>")
    return f"<tr>{first}{''.join(rest)}</tr>"
