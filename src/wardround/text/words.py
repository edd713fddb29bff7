"""Words with exact offsets.

A word is a run of letters, a run of digits, or one other visible character. Letters and digits are parted because
clinical notes run them together (`10mg`, `82años`) and annotators cut there.
"""

from __future__ import annotations

import re

from wardround.text.document import Document, Range

__all__ = ["find_words", "words_of"]

# A decomposed accent (U+0300-U+036F) stays with its letter.
_WORD = re.compile(r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*|\d+|[^\w\s]|_")


def find_words(text: str, within: Range | None = None) -> list[Range]:
    """The words of `text`, or of the part `within` it, as offsets in `text`."""
    start, end = within or (0, len(text))
    return [Range(*match.span()) for match in _WORD.finditer(text, start, end)]


def words_of(document: Document) -> tuple[Range, ...]:
    """The corpus's own words where it gives them, found ones otherwise."""
    return tuple(find_words(document.text)) if document.words is None else document.words
