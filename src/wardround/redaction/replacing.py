"""One note redacted: what is hidden goes, everything else stays, and where the replacements lie is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from wardround.redaction.findings import Hidden, Source
from wardround.redaction.keyed import Keyed
from wardround.redaction.patterns import Language
from wardround.redaction.surrogates import Mention, Surrogates
from wardround.text.document import Range
from wardround.text.normalisation import normalise_mention

__all__ = ["How", "Mark", "Redacted", "Replacing", "redacted"]

_BLOCK, _BLOCK_LENGTH = "█", 5
_BEFORE = 24  # characters before a mention in which a title is looked for


class How(Enum):
    """What takes the place of what is hidden."""

    MASK = "mask"  # a block for every character
    BLOCK = "block"  # five blocks, however long it was
    TAG = "tag"  # its type, as [DATE]
    SURROGATE = "surrogate"  # something like it


@dataclass(frozen=True, slots=True)
class Mark:
    """A replacement, in offsets of the redacted text."""

    range: Range
    type: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text that may be read, and its marks in reading order."""

    text: str = field(repr=False)
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Replacing:
    """How notes are redacted; the key is the site's own."""

    how: How
    language: Language
    key: Keyed = field(repr=False)

    def note(self, text: str, hidden: Sequence[Hidden], *, patient: str) -> Redacted:
        """A note redacted; notes with the same `patient` share their stand-ins and the move of their dates."""
        if self.how is not How.SURROGATE:
            return redacted(text, hidden, lambda piece: _plain(self.how, piece))
        surrogates = Surrogates(
            [_mention(text, piece) for piece in hidden],
            patient=self.key.child("patient", patient),
            language=self.language,
        )
        return redacted(text, hidden, lambda piece: surrogates.of(_mention(text, piece)))


def redacted(text: str, hidden: Sequence[Hidden], replacement: Callable[[Hidden], str]) -> Redacted:
    """The text with each hidden piece, in order, replaced."""
    parts: list[str] = []
    marks: list[Mark] = []
    end = length = 0
    for piece in hidden:
        new = replacement(piece)
        assert piece.range.start >= end, "pieces are in order and do not overlap"
        assert new, "a replacement can be seen"
        parts += (text[end : piece.range.start], new)
        start = length + piece.range.start - end
        length, end = start + len(new), piece.range.end
        marks.append(Mark(Range(start, length), piece.type, piece.sources))
    return Redacted("".join((*parts, text[end:])), tuple(marks))


def _plain(how: How, piece: Hidden) -> str:
    if how is How.TAG:
        return f"[{piece.type}]"
    return _BLOCK * (piece.range.end - piece.range.start if how is How.MASK else _BLOCK_LENGTH)


def _mention(text: str, piece: Hidden) -> Mention:
    """The mention as it was typed, so that a name in full-width letters is the name that it reads as."""
    start, end = piece.range
    before = text[max(0, start - _BEFORE) : start]
    return Mention(piece.type, normalise_mention(text[start:end]), normalise_mention(before))
