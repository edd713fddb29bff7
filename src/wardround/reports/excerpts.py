"""A synthetic or public note with what a model found in it beside what is annotated; never a note of a site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from wardround.reports.plain_text import neutralise
from wardround.text.document import Document, Level, Range, Relation

__all__ = ["Excerpt"]

Verdict: TypeAlias = Literal["right", "missed", "spurious"]
_SAID: dict[Verdict, str] = {"right": "", "missed": ", missed", "spurious": ", not annotated"}


class _Fragment(NamedTuple):
    """One range of a mention, and what became of it."""

    range: Range
    type: str
    verdict: Verdict

    @property
    def label(self) -> str:
        """`Drug`, or `Drug, missed`."""
        return self.type + _SAID[self.verdict]


@dataclass(frozen=True)
class Excerpt:
    """One note; `where` says whose, and by what right it is shown."""

    where: str
    gold: Document
    predicted: Document

    def to_html(self) -> str:
        """A block with every mention framed and named; nothing is told by colour alone."""
        text = "".join(_piece(shown, inside, ending) for shown, inside, ending in self._pieces())
        relations = "".join(f"<li>{_safe(line)}</li>" for line in self.relations())
        listed = f"<ul>{relations}</ul>" if relations else ""
        return f'<div class="excerpt"><small>{_safe(self.where)}</small><p>{text}</p>{listed}</div>'

    def to_markdown(self) -> str:
        """A quotation with the types behind the mentions."""
        parts = [shown + "".join(f" ‹{f.label}›" for f in ending) for shown, _, ending in self._pieces()]
        lines = [f"{self.where}:", "", *"".join(parts).splitlines(), *(f"- {line}" for line in self.relations())]
        return "\n".join(f"> {line}".rstrip() for line in lines) + "\n"

    def relations(self) -> list[str]:
        """Each relation that is annotated or was found, in words."""
        gold = {_key(relation, self.gold): relation for relation in self.gold.relations}
        found = {_key(relation, self.predicted): relation for relation in self.predicted.relations}
        lines = [f"{_sentence(key)}{_SAID['right' if key in gold else 'spurious']}" for key in found]
        return lines + [f"{_sentence(key)}{_SAID['missed']}" for key in gold if key not in found]

    def _pieces(self) -> Iterator[tuple[str, list[_Fragment], list[_Fragment]]]:
        """The text cut at every edge of a mention: the piece, what it lies in, what ends with it."""
        text, fragments = neutralise(self.gold.text), self._fragments()
        edges = sorted({0, len(text), *(edge for fragment in fragments for edge in fragment.range)})
        for start, end in pairwise(edges):
            inside = [f for f in fragments if f.range.start <= start and f.range.end >= end]
            yield text[start:end], inside, [f for f in inside if f.range.end == end]

    def _fragments(self) -> list[_Fragment]:
        gold = {(entity.type, entity.ranges) for entity in self.gold.entities}
        found = {(entity.type, entity.ranges) for entity in self.predicted.entities}
        verdicts: list[tuple[set[tuple[str, tuple[Range, ...]]], Verdict]] = [
            (found & gold, "right"),
            (found - gold, "spurious"),
            (gold - found, "missed"),
        ]
        fragments = [_Fragment(r, t, verdict) for known, verdict in verdicts for t, ranges in known for r in ranges]
        return sorted(fragments, key=lambda f: (f.range, f.verdict, f.type))


def _piece(shown: str, inside: list[_Fragment], ending: list[_Fragment]) -> str:
    text = _safe(shown)
    if inside:
        # What was found is seen before what was missed, where both lie on the same words.
        first = min(inside, key=lambda f: (("right", "spurious", "missed").index(f.verdict), f.type))
        text = f'<mark class="{first.verdict}">{text}</mark>'
    labels = "; ".join(fragment.label for fragment in ending)
    return f"{text}<small> {_safe(labels)}</small>" if labels else text


_Key: TypeAlias = tuple[str, str, str]


def _key(relation: Relation, document: Document) -> _Key:
    return relation.type, _end(relation.head, relation.level, document), _end(relation.tail, relation.level, document)


def _end(name: str, level: Level, document: Document) -> str:
    if level is Level.CONCEPT:
        return name
    entity = next(entity for entity in document.entities if entity.id == name)
    return f"{entity.text_in(document.text)} ({entity.type})"


def _sentence(key: _Key) -> str:
    return " ".join(f"{key[0]}: {key[1]} → {key[2]}".split())


def _safe(text: str) -> str:
    return escape(neutralise(text))
