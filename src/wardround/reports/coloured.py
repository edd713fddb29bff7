"""A note with its mentions highlighted, for the terminal of the hospital that owns it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.style import Style
from rich.text import Text

from wardround.reports.palette import ink_on, type_colour
from wardround.reports.plain_text import neutralise
from wardround.text.document import Document, Entity, Level, Range, Relation

__all__ = ["coloured"]


class _Fragment(NamedTuple):
    """One range of an entity, and which one it is."""

    range: Range
    entity: Entity
    number: int

    @property
    def length(self) -> int:
        return self.range.end - self.range.start

    @property
    def label(self) -> str:
        """`‹Drug›`; for a discontinuous mention also which one and which part: `‹ADE T3 1/2›`."""
        parts = len(self.entity.ranges)
        which = f" {self.entity.id} {self.number}/{parts}" if parts > 1 else ""
        return f"‹{self.entity.type}{which}›"


def coloured(document: Document, *, types: Sequence[str] = ()) -> Text:
    """The note with each mention in its type's colour and the type behind it; relations are listed below.

    Within nested mentions the innermost gives the colour, and all are underlined. `types` fixes the colours of a
    tag set; without it they follow from the names. Control characters of the note are shown as pictures.
    """
    text = neutralise(document.text)
    shown = Text()
    for piece, inside, ending in _pieces(document):
        shown.append(text[piece.start : piece.end], _style(inside, types))
        for fragment in ending:
            shown.append(neutralise(fragment.label), _colours(fragment.entity.type, types) + Style(italic=True))
    if document.relations:
        shown.append("\n")
    for relation in document.relations:
        shown.append(f"\n{_sentence(relation, document)}")
    return shown


def _pieces(document: Document) -> Iterator[tuple[Range, list[_Fragment], list[_Fragment]]]:
    """The text cut at every edge of a mention: the piece, the fragments it lies in, the fragments that end with it."""
    fragments = [_Fragment(r, entity, n) for entity in document.entities for n, r in enumerate(entity.ranges, start=1)]
    edges = sorted({0, len(document.text), *(edge for fragment in fragments for edge in fragment.range)})
    waiting, inside = sorted(fragments, key=lambda f: f.range, reverse=True), list[_Fragment]()
    for start, end in pairwise(edges):
        while waiting and waiting[-1].range.start == start:
            inside.append(waiting.pop())
        ending = [fragment for fragment in inside if fragment.range.end == end]
        yield Range(start, end), inside, _inner_first(ending)
        inside = [fragment for fragment in inside if fragment.range.end > end]


def _inner_first(fragments: Iterable[_Fragment]) -> list[_Fragment]:
    return sorted(fragments, key=lambda fragment: (fragment.length, fragment.entity.type, fragment.entity.id))


def _style(inside: Sequence[_Fragment], types: Sequence[str]) -> Style:
    if not inside:
        return Style()
    innermost = _inner_first(inside)[0]
    return _colours(innermost.entity.type, types) + Style(bold=True, underline=len(inside) > 1)


def _colours(type_: str, types: Sequence[str]) -> Style:
    background = type_colour(type_, types)
    return Style(color=ink_on(background), bgcolor=background)


def _sentence(relation: Relation, document: Document) -> str:
    """`R1 Causes: aspirin (Drug) → nausea (ADE)`, on one line."""
    head, tail = (_end(name, relation.level, document) for name in (relation.head, relation.tail))
    return " ".join(neutralise(f"{relation.id} {relation.type}: {head} → {tail}").split())


def _end(name: str, level: Level, document: Document) -> str:
    if level is Level.CONCEPT:
        return name
    entity = next(entity for entity in document.entities if entity.id == name)
    return f"{entity.text_in(document.text)} ({entity.type})"
