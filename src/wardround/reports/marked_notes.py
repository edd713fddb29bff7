"""Notes with their mentions marked: in colour for a terminal, and as example predictions for a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from rich.style import Style
from rich.text import Text

from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.palette import ink_on, type_colour
from wardround.text.plain_text import html_text, neutralise

__all__ = ["Excerpt", "highlight"]


# For the terminal of the hospital that owns the note.


class _Fragment(NamedTuple):
    """One range of an entity, and its number within the entity."""

    range: Range
    entity: Entity
    number: int

    @property
    def label(self) -> str:
        """Return `‹Drug›`; for a discontinuous mention also its id and part, as in `‹ADE T3 1/2›`."""
        parts = len(self.entity.ranges)
        which = f" {self.entity.id} {self.number}/{parts}" if parts > 1 else ""
        return f"‹{self.entity.type}{which}›"


def highlight(document: Document, *, types: Sequence[str] = ()) -> Text:
    """Return the note with each mention in the colour of its type, followed by the type; relations are listed below.

    In nested mentions the innermost gives the colour, and all are underlined. `types` fixes the colours of a tag set;
    without it they depend on the names. Control characters of the note are shown as pictures.
    """
    text = neutralise(document.text)
    shown = Text()
    for piece, inside, ending in _pieces(document):
        style = Style()
        if inside:
            innermost = _innermost_first(inside)[0]
            style = _type_style(innermost.entity.type, types) + Style(bold=True, underline=len(inside) > 1)
        shown.append(text[piece.start : piece.end], style)
        for fragment in ending:
            shown.append(neutralise(fragment.label), _type_style(fragment.entity.type, types) + Style(italic=True))
    if document.relations:
        shown.append("\n")
    for relation in document.relations:
        kind, head, tail = _relation_key(relation, document)
        line = " ".join(neutralise(f"{relation.id} {kind}: {head} → {tail}").split())
        shown.append(f"\n{line}")
    return shown


def _pieces(document: Document) -> Iterator[tuple[Range, list[_Fragment], list[_Fragment]]]:
    """Cut the text at every edge of a mention; yield each piece, the fragments around it, and those that end there."""
    fragments = [_Fragment(r, entity, n) for entity in document.entities for n, r in enumerate(entity.ranges, start=1)]
    edges = sorted({0, len(document.text), *(edge for fragment in fragments for edge in fragment.range)})
    waiting, inside = sorted(fragments, key=lambda f: f.range, reverse=True), list[_Fragment]()
    for start, end in pairwise(edges):
        while waiting and waiting[-1].range.start == start:
            inside.append(waiting.pop())
        ending = [fragment for fragment in inside if fragment.range.end == end]
        yield Range(start, end), inside, _innermost_first(ending)
        inside = [fragment for fragment in inside if fragment.range.end > end]


def _innermost_first(fragments: Iterable[_Fragment]) -> list[_Fragment]:
    return sorted(fragments, key=lambda f: (f.range.end - f.range.start, f.entity.type, f.entity.id))


def _type_style(type_: str, types: Sequence[str]) -> Style:
    background = type_colour(type_, types)
    return Style(color=ink_on(background), bgcolor=background)


# For a report: synthetic or public notes only, never a note of a site.


Verdict: TypeAlias = Literal["right", "missed", "spurious"]
_VERDICT_TEXT: dict[Verdict, str] = {"right": "", "missed": ", missed", "spurious": ", not annotated"}


class _JudgedFragment(NamedTuple):
    """One range of a mention, and whether it was found."""

    range: Range
    type: str
    verdict: Verdict

    @property
    def label(self) -> str:
        """Return `Drug`, or `Drug, missed`."""
        return self.type + _VERDICT_TEXT[self.verdict]


@dataclass(frozen=True)
class Excerpt:
    """One note with its annotation and a model's predictions; `where` says where it is from and why it may be shown."""

    where: str
    gold: Document
    predicted: Document

    def to_html(self) -> str:
        """Return a block with every mention framed and named, so that nothing depends on colour alone."""
        text = ""
        for shown, inside, ending in self._pieces():
            piece = html_text(shown)
            if inside:
                # If a found and a missed mention share words, the found one is shown.
                first = min(inside, key=lambda f: (("right", "spurious", "missed").index(f.verdict), f.type))
                piece = f'<mark class="{first.verdict}">{piece}</mark>'
            labels = "; ".join(fragment.label for fragment in ending)
            text += f"{piece}<small> {html_text(labels)}</small>" if labels else piece
        relations = "".join(f"<li>{html_text(line)}</li>" for line in self.relations())
        listed = f"<ul>{relations}</ul>" if relations else ""
        return f'<div class="excerpt"><small>{html_text(self.where)}</small><p>{text}</p>{listed}</div>'

    def to_markdown(self) -> str:
        """Return a quotation with the type after each mention."""
        parts = [shown + "".join(f" ‹{f.label}›" for f in ending) for shown, _, ending in self._pieces()]
        lines = [f"{self.where}:", "", *"".join(parts).splitlines(), *(f"- {line}" for line in self.relations())]
        return "\n".join(f"> {line}".rstrip() for line in lines) + "\n"

    def relations(self) -> list[str]:
        """Return one line for each relation that is annotated or was predicted."""
        gold = dict.fromkeys(_relation_key(relation, self.gold) for relation in self.gold.relations)
        found = dict.fromkeys(_relation_key(relation, self.predicted) for relation in self.predicted.relations)
        verdicts: dict[tuple[str, str, str], Verdict] = {key: "right" if key in gold else "spurious" for key in found}
        verdicts |= {key: "missed" for key in gold if key not in found}
        return [
            " ".join(f"{kind}: {head} → {tail}".split()) + _VERDICT_TEXT[verdict]
            for (kind, head, tail), verdict in verdicts.items()
        ]

    def _pieces(self) -> Iterator[tuple[str, list[_JudgedFragment], list[_JudgedFragment]]]:
        """Cut the text at every edge of a mention; yield each piece, the fragments around it, and those that end."""
        gold = {(entity.type, entity.ranges) for entity in self.gold.entities}
        found = {(entity.type, entity.ranges) for entity in self.predicted.entities}
        verdicts: list[tuple[set[tuple[str, tuple[Range, ...]]], Verdict]] = [
            (found & gold, "right"),
            (found - gold, "spurious"),
            (gold - found, "missed"),
        ]
        judged = [_JudgedFragment(r, t, verdict) for known, verdict in verdicts for t, ranges in known for r in ranges]
        fragments = sorted(judged, key=lambda f: (f.range, f.verdict, f.type))
        text = neutralise(self.gold.text)
        edges = sorted({0, len(text), *(edge for fragment in fragments for edge in fragment.range)})
        for start, end in pairwise(edges):
            inside = [f for f in fragments if f.range.start <= start and f.range.end >= end]
            yield text[start:end], inside, [f for f in inside if f.range.end == end]


def _relation_key(relation: Relation, document: Document) -> tuple[str, str, str]:
    """Return the type of the relation and its two ends as text, e.g. `aspirin (Drug)`."""

    def end(name: str) -> str:
        if relation.level is Level.CONCEPT:
            return name
        entity = next(entity for entity in document.entities if entity.id == name)
        return f"{entity.text_in(document.text)} ({entity.type})"

    return relation.type, end(relation.head), end(relation.tail)
