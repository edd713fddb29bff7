"""Tables as plain data, and the four ways to show one: terminal, Markdown, CSV, HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

import rich.table
from rich.text import Text

from wardround.reports.plain_text import neutralise

__all__ = ["Cell", "Figures", "Row", "Table"]

_Plain: TypeAlias = str | int | float | None  # None is an empty cell


@dataclass(frozen=True, slots=True)
class Figures:
    """What a reader sees as one text, and a CSV holds as numbers in columns of their own.

    Each part is named by what it adds to the column's name: of `0.500 (0.250–0.750)` under `F1` the parts "", "low" and
    "high" lie under `F1`, `F1 low` and `F1 high`.
    """

    text: str
    parts: Mapping[str, _Plain]


Cell: TypeAlias = _Plain | Figures
Row: TypeAlias = tuple[Cell, ...]
_Side: TypeAlias = Literal["left", "right"]

_SPECIAL_IN_MARKDOWN = re.compile(r"([\\|`*\[\]<>])")
_LONGEST_ON_A_LINE = 36  # characters of a cell that a page does not break
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Table:
    """A title, columns and rows; `totals` are the last rows, set apart, `note` stands below, `file` names its CSV."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    totals: tuple[Row, ...] = ()
    note: str = ""
    file: str = ""  # the title, unless that changes as a run goes on

    def __post_init__(self) -> None:
        for row in (*self.rows, *self.totals):
            assert len(row) == len(self.columns), f"a row of {len(row)} cells under {len(self.columns)} columns"

    def turned(self, corner: str) -> Table:
        """Rows as columns, the totals last, and columns as rows, which `corner` names."""
        heads, *rows = zip(self.columns, *self.rows, *self.totals, strict=True)
        return Table(self.title, (corner, *map(_shown, heads[1:])), tuple(rows), note=self.note, file=self.file)

    def to_rich(self) -> rich.table.Table:
        """The table for a terminal."""
        shown = rich.table.Table(
            title=Text(_line(self.title)), caption=Text(_line(self.note)) if self.note else None, caption_justify="left"
        )
        for place, (name, side) in enumerate(zip(self.columns, self._sides(), strict=True)):
            # On a narrow terminal headings wrap; what a row is called and its numbers never do.
            cells = [len(_shown(row[place])) for row in (*self.rows, *self.totals)] if side == "right" else []
            width = max(cells, default=None)
            shown.add_column(Text(_line(name)), justify=side, no_wrap=place == 0, min_width=width)
        for row in self.rows:
            shown.add_row(*(Text(_shown(cell)) for cell in row))
        if self.totals:
            shown.add_section()
        for row in self.totals:
            shown.add_row(*(Text(_shown(cell)) for cell in row), style="bold")
        return shown

    def to_markdown(self) -> str:
        """The table as GitHub's Markdown, title and note as paragraphs around it."""
        lines = [_markdown_row(self.columns), _markdown_rule(self._sides())]
        lines += [_markdown_row(row) for row in (*self.rows, *self.totals)]
        parts = [f"**{_markdown(self.title)}**", "\n".join(lines), _markdown(self.note)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_csv(self) -> str:
        """Columns and rows with unrounded numbers, a column each; no title, no note.

        Text that a spreadsheet would run as a formula is given a leading apostrophe.
        """
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        rows = (*self.rows, *self.totals)
        parts = [_parts_under(row[place] for row in rows) for place in range(len(self.columns))]
        named = zip(self.columns, parts, strict=True)
        writer.writerow(_csv_cell(f"{name} {part}" if part else name) for name, under in named for part in under)
        writer.writerows(_csv_row(row, parts) for row in rows)
        return stream.getvalue()

    def to_html(self) -> str:
        """A `<table>`, everything escaped; numbers have the class `number`, long text `prose`, totals a `<tfoot>`."""
        return "".join(self._html_parts())

    def _html_parts(self) -> Iterator[str]:
        sides = self._sides()
        yield f"<table><caption><span>{_html(self.title)}</span></caption>"  # the span stays where the table scrolls
        headings = (f'<th scope="col"{_number(s)}>{_html(c)}</th>' for c, s in zip(self.columns, sides, strict=True))
        yield f"<thead><tr>{''.join(headings)}</tr></thead>"
        yield f"<tbody>{''.join(_html_row(row, sides) for row in self.rows)}</tbody>"
        if self.totals:
            yield f"<tfoot>{''.join(_html_row(row, sides) for row in self.totals)}</tfoot>"
        yield "</table>"
        if self.note:
            yield f'<p class="note">{_html(self.note)}</p>'

    def _sides(self) -> list[_Side]:
        """Columns of numbers align right, the others left."""
        cells = zip(*self.rows, *self.totals, strict=True) if self.rows or self.totals else [()] * len(self.columns)
        return ["left" if any(isinstance(cell, str | Figures) for cell in column) else "right" for column in cells]


def _line(text: str) -> str:
    return " ".join(neutralise(text).split("\n"))


def _shown(cell: Cell) -> str:
    """Scores with three decimals, counts with thousands set apart."""
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
    return f"| {' | '.join(_markdown(_shown(cell)) for cell in cells)} |"


def _markdown_rule(sides: list[_Side]) -> str:
    return f"| {' | '.join('---' if side == 'left' else '---:' for side in sides)} |"


def _parts_of(cell: Cell) -> Mapping[str, _Plain]:
    if isinstance(cell, Figures):
        return cell.parts
    return {} if cell in ("", None) else {"": cell}


def _parts_under(cells: Iterable[Cell]) -> list[str]:
    """What the columns that one becomes in a CSV add to its name; most become one."""
    return list(dict.fromkeys(part for cell in cells for part in _parts_of(cell))) or [""]


def _csv_row(row: Row, parts: list[list[str]]) -> list[_Plain]:
    cells = zip(map(_parts_of, row), parts, strict=True)
    return [_csv_cell(found.get(part)) for found, under in cells for part in under]


def _csv_cell(cell: _Plain) -> _Plain:
    if not isinstance(cell, str):
        return cell
    text = neutralise(cell)
    return f"'{text}" if text.startswith(_STARTS_A_FORMULA) else text


def _html(text: str) -> str:
    return escape(_line(text))


def _number(side: _Side) -> str:
    return ' class="number"' if side == "right" else ""


def _html_row(row: Row, sides: list[_Side]) -> str:
    first = f'<th scope="row"{_number(sides[0])}>{_html(_shown(row[0]))}</th>'
    rest = (_html_cell(_shown(cell), side) for cell, side in zip(row[1:], sides[1:], strict=True))
    return f"<tr>{first}{''.join(rest)}</tr>"


def _html_cell(text: str, side: _Side) -> str:
    kind = ' class="prose"' if side == "left" and len(text) > _LONGEST_ON_A_LINE else _number(side)
    return f"<td{kind}>{_html(text)}</td>"
