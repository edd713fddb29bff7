"""A style of notes: its rules, the order of its parts, and the hand that writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wardround.corpora.synthetic.grammar import Piece
from wardround.corpora.synthetic.stream import Stream

__all__ = ["Hand", "Section", "Style", "misspelt"]

_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {key: row[max(0, at - 1) : at] + row[at + 1 : at + 2] for row in _KEYS for at, key in enumerate(row)}
_BY_EAR = tuple(
    (heard, written)
    for heard, written in (
        pair.split("=")
        for pair in "ph=f ae=e oe=e rrh=r ou=u ie=ei ei=ie y=i ll=l ss=s pp=p ti=si ce=se ck=k x=ks qu=kw".split()
    )
)


@dataclass(frozen=True, slots=True)
class Section:
    """Some sentences by one rule."""

    rule: str
    low: int
    high: int
    opens: str = " "  # what stands before the section
    between: str = " "  # what stands between its sentences


@dataclass(frozen=True, slots=True)
class Hand:
    """How somebody writes; the rates are chances."""

    slips: float = 0.0  # that a word of five letters or more is misspelt
    short: float = 0.0  # that a term is abbreviated where it can be
    lay: float = 0.0  # that a term is said as patients say it
    small_letters: float = 0.0  # that the note has no capitals
    capitals: bool = True  # whether sentences begin with one otherwise

    def write(self, pieces: Iterable[Piece], stream: Stream, *, small: bool) -> list[Piece]:
        """The pieces of a sentence as this hand puts them down."""
        written = [Piece(self._slip(piece.text, stream), piece.mention) for piece in pieces]
        if small:
            return [Piece(piece.text.lower(), piece.mention) for piece in written]
        return _capitalised(written) if self.capitals else written

    def _slip(self, text: str, stream: Stream) -> str:
        if not self.slips:
            return text
        return _LONG_WORD.sub(
            lambda word: misspelt(word[0], stream) if stream.chance(self.slips) else word[0],
            text,
        )


@dataclass(frozen=True)
class Style:
    """One way of writing notes."""

    name: str
    rules: Mapping[str, str] = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    hand: Hand


def misspelt(word: str, stream: Stream) -> str:
    """The word with one mistake: by ear, a dropped, doubled or swapped letter, or a neighbouring key."""
    at = stream.between(1, len(word) - 2)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    match stream.below(5):
        case 0:
            return _by_ear(word, stream)
        case 1:
            return before + after
        case 2:
            return before + letter * 2 + after
        case 3:
            return before + after[0] + letter + after[1:]
        case _:
            return before + stream.choice(_NEIGHBOURS.get(letter, "") or letter) + after


def _by_ear(word: str, stream: Stream) -> str:
    audible = [(heard, written) for heard, written in _BY_EAR if heard in word[1:]]
    if not audible:
        return word[:-2] + word[-1]
    heard, written = stream.choice(audible)
    return word[0] + word[1:].replace(heard, written, 1)


def _capitalised(pieces: Sequence[Piece]) -> list[Piece]:
    first = next((at for at, piece in enumerate(pieces) if piece.text.strip()), 0)
    return [
        Piece(piece.text[:1].upper() + piece.text[1:], piece.mention) if at == first else piece
        for at, piece in enumerate(pieces)
    ]
