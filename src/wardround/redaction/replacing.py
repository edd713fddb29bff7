"""Replace the hidden pieces of a note and record where the replacements are; everything else stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from wardround.redaction.findings import Hidden, Source
from wardround.redaction.patterns import Language
from wardround.redaction.secret_key import SecretKey
from wardround.redaction.surrogates import Mention, Surrogates
from wardround.text.document import Range
from wardround.text.normalisation import normalise_mention

__all__ = ["How", "Mark", "Redacted", "Replacer", "replace_hidden"]

_BLOCK, _BLOCK_LENGTH = "█", 5
_BEFORE = 24  # characters before a mention that are searched for a title


class How(Enum):
    """What replaces hidden text."""

    MASK = "mask"  # one block per character
    BLOCK = "block"  # five blocks, independent of the length
    TAG = "tag"  # its type, e.g. [DATE]
    SURROGATE = "surrogate"  # an invented text of the same kind


@dataclass(frozen=True, slots=True)
class Mark:
    """A replacement, in offsets of the redacted text."""

    range: Range
    type: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Redacted:
    """The redacted text, and its marks in text order."""

    text: str = field(repr=False)
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Replacer:
    """Redacts notes in one way; the key belongs to the site."""

    how: How
    language: Language
    key: SecretKey = field(repr=False)

    def note(self, text: str, hidden: Sequence[Hidden], *, patient: str) -> Redacted:
        """Redact a note; notes with the same `patient` share their surrogates and the shift of their dates."""
        if self.how is How.TAG:
            return replace_hidden(text, hidden, lambda piece: f"[{piece.type}]")
        if self.how is How.MASK:
            return replace_hidden(text, hidden, lambda piece: _BLOCK * (piece.range.end - piece.range.start))
        if self.how is How.BLOCK:
            return replace_hidden(text, hidden, lambda _: _BLOCK * _BLOCK_LENGTH)
        surrogates = Surrogates(
            [_mention(text, piece) for piece in hidden],
            patient=self.key.child("patient", patient),
            language=self.language,
        )
        return replace_hidden(text, hidden, lambda piece: surrogates.of(_mention(text, piece)))


def replace_hidden(text: str, hidden: Sequence[Hidden], replacement: Callable[[Hidden], str]) -> Redacted:
    """Return the text with each hidden piece replaced."""
    parts: list[str] = []
    marks: list[Mark] = []
    end = length = 0
    for piece in hidden:
        new = replacement(piece)
        assert piece.range.start >= end, "pieces are ordered and do not overlap"
        assert new, "a replacement is visible"
        parts += (text[end : piece.range.start], new)
        start = length + piece.range.start - end
        length, end = start + len(new), piece.range.end
        marks.append(Mark(Range(start, length), piece.type, piece.sources))
    return Redacted("".join((*parts, text[end:])), tuple(marks))


def _mention(text: str, piece: Hidden) -> Mention:
    """Return the normalised mention, so that a name in full-width letters is treated as the name it shows."""
    start, end = piece.range
    before = text[max(0, start - _BEFORE) : start]
    return Mention(piece.type, normalise_mention(text[start:end]), normalise_mention(before))
