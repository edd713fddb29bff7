"""A report as files: the page, its tables as Markdown and CSV, its charts as PNG and SVG."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.reports.page import Section, write_page
from wardround.reports.plain_text import neutralise

__all__ = ["Written", "write_bundle"]

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Written:
    """Where things lie."""

    page: Path
    markdown: Path
    tables: tuple[Path, ...]
    charts: tuple[Path, ...]


def write_bundle(folder: Path, title: str, sections: Sequence[Section]) -> Written:
    """Write everything below `folder`; files of an earlier report under the same names are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    page, markdown = folder / "report.html", folder / "report.md"
    tables, charts = tuple(_write_tables(folder, sections)), tuple(_write_charts(folder, sections))
    markdown.write_text("\n".join(_markdown(title, sections)), encoding="utf-8")
    write_page(page, title, sections)
    return Written(page, markdown, tables, charts)


def _write_tables(folder: Path, sections: Sequence[Section]) -> Iterator[Path]:
    titled = [(f"{s.heading} {table.file or table.title}", table) for s in sections for table in s.tables]
    for name, (_, table) in zip(_names(title for title, _ in titled), titled, strict=True):
        path = _place(folder / "tables", f"{name}.csv")
        path.write_text(table.to_csv(), encoding="utf-8")
        yield path


def _write_charts(folder: Path, sections: Sequence[Section]) -> Iterator[Path]:
    drawings = [drawing for section in sections for drawing in section.drawings]
    for name, drawing in zip(_names(drawing.name for drawing in drawings), drawings, strict=True):
        vector = _place(folder / "charts", f"{name}.svg")
        vector.write_text(drawing.svg, encoding="utf-8")
        yield vector
        if drawing.plot is not None:
            picture = vector.with_suffix(".png")
            picture.write_bytes(drawing.plot.to_png(dpi=300))
            yield picture


def _markdown(title: str, sections: Sequence[Section]) -> Iterator[str]:
    yield f"# {_line(title)}\n"
    charts = iter(_names(drawing.name for section in sections for drawing in section.drawings))
    for section in sections:
        yield f"## {_line(section.heading)}\n"
        if section.prose:
            yield neutralise(section.prose.strip()) + "\n"
        yield from (excerpt.to_markdown() for excerpt in section.excerpts)
        yield from (table.to_markdown() for table in section.tables)
        yield from (f"![{_line(drawing.caption)}](charts/{next(charts)}.svg)\n" for drawing in section.drawings)
        if section.listing:
            yield f"```toml\n{neutralise(section.listing).strip()}\n```\n"


def _names(titles: Iterable[str]) -> list[str]:
    """File names of titles, each once; of two that are alike the later gets a number."""
    names: list[str] = []
    for title in titles:
        base = _NOT_IN_A_NAME.sub("-", title.lower()).strip("-")[:_LONGEST_NAME].strip("-") or "unnamed"
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return names


def _place(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _line(text: str) -> str:
    return " ".join(neutralise(text).split()).replace("[", "(").replace("]", ")")
