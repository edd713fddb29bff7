"""A note as HTML with its mentions marked, for the notebook of a person who may read the note."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from wardround.text.palette import ink_on, type_colour
from wardround.text.plain_text import html_text, neutralise

if TYPE_CHECKING:
    from wardround.text.document import Document

__all__ = ["document_html"]

_NOTE = "white-space: pre-wrap; line-height: 1.9; border: 1px solid #8886; border-radius: 4px; padding: .6em .8em"
_MARK = "background: {background}; color: {ink}; border-radius: 3px; padding: .1em .25em"


def document_html(document: Document) -> str:
    """Return a block with every mention in the colour of its type, followed by the type; relations are listed below.

    Where mentions overlap, a piece of text has the colour of the shortest. Control characters are shown as pictures.
    """
    text = neutralise(document.text)
    ranges = [(part, entity) for entity in document.entities for part in entity.ranges]
    edges = sorted({0, len(text), *(edge for part, _ in ranges for edge in part)})
    shown = ""
    for start, end in pairwise(edges):
        inside = [(part.end - part.start, entity.type) for part, entity in ranges if part.start <= start < part.end]
        piece = html_text(text[start:end])
        if inside:
            background = type_colour(min(inside)[1])
            piece = f'<mark style="{_MARK.format(background=background, ink=ink_on(background))}">{piece}</mark>'
        ending = [entity for part, entity in ranges if part.end == end]
        labels = "".join(f"<sub> {html_text(entity.type)}{_score(entity.score)}</sub>" for entity in ending)
        shown += piece + labels
    lines = []
    for relation in document.relations:
        head, tail = (_end(document, end) for end in (relation.head, relation.tail))
        lines.append(f"<li>{html_text(relation.type)}: {head} → {tail}{_score(relation.score)}</li>")
    listed = f"<ul>{''.join(lines)}</ul>" if lines else ""
    return f'<div><small>{html_text(document.id)}</small><div style="{_NOTE}">{shown}</div>{listed}</div>'


def _score(score: float | None) -> str:
    return "" if score is None else f" {score:.2f}"


def _end(document: Document, name: str) -> str:
    found = [entity for entity in document.entities if entity.id == name]
    return html_text(f"{found[0].text_in(document.text)} ({found[0].type})" if found else name)
