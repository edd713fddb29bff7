"""Styles of synthetic notes, how one writer types them, and the hospitals that they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.templates import NoteBuilder, Piece, SentenceWriter
from wardround.text.document import Attributes, Document
from wardround.text.tag_sets import TagSet

__all__ = [
    "SYNTHETIC",
    "Section",
    "Splits",
    "Style",
    "SyntheticSite",
    "Typing",
    "misspelt",
    "patient_facts",
    "write_note",
]

SYNTHETIC: Attributes = (("synthetic", "true"),)  # marks every generated document

_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {key: row[max(0, at - 1) : at] + row[at + 1 : at + 2] for row in _KEYS for at, key in enumerate(row)}
# Letters of the correct spelling, and how they are written by sound.
_BY_SOUND = dict(
    pair.split("=")
    for pair in "ph=f ae=e oe=e rrh=r ou=u ie=ei ei=ie y=i ll=l ss=s pp=p ti=si ce=se ck=k x=ks qu=kw".split()
)


@dataclass(frozen=True, slots=True)
class Section:
    """Several sentences from one rule."""

    rule: str
    low: int
    high: int
    opens: str = " "  # text before the section
    between: str = " "  # text between its sentences


@dataclass(frozen=True, slots=True)
class Typing:
    """How a writer types; the rates are probabilities."""

    slips: float = 0.0  # a word of five or more letters is misspelt
    short: float = 0.0  # a term that has an abbreviation is abbreviated
    lay: float = 0.0  # a term is written in the words of patients
    small_letters: float = 0.0  # the note has no capital letters
    capitals: bool = True  # otherwise, sentences begin with a capital letter

    def write(self, pieces: Iterable[Piece], stream: Stream, *, small: bool) -> list[Piece]:
        """Return the pieces of a sentence as this writer types them."""

        def type_word(word: re.Match[str]) -> str:
            return misspelt(word[0], stream) if stream.chance(self.slips) else word[0]

        typed = list(pieces)
        if self.slips:
            typed = [Piece(_LONG_WORD.sub(type_word, piece.text), piece.mention) for piece in typed]
        if small:
            return [Piece(piece.text.lower(), piece.mention) for piece in typed]
        if self.capitals:
            first = next((at for at, piece in enumerate(typed) if piece.text.strip()), 0)
            text = typed[first].text
            typed[first] = Piece(text[:1].upper() + text[1:], typed[first].mention)
        return typed


@dataclass(frozen=True)
class Style:
    """A style of notes: its rules, the order of its sections, and how it is typed."""

    name: str
    rules: Mapping[str, str] = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    typing: Typing


def misspelt(word: str, stream: Stream) -> str:
    """Return the word with one mistake: by sound, a dropped, doubled or swapped letter, or a neighbouring key."""
    at = stream.between(1, len(word) - 2)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    match stream.below(5):
        case 0:
            candidates = [letters for letters in _BY_SOUND if letters in word[1:]]
            if not candidates:
                return word[:-2] + word[-1]
            letters = stream.choice(candidates)
            return word[0] + word[1:].replace(letters, _BY_SOUND[letters], 1)
        case 1:
            return before + after
        case 2:
            return before + letter * 2 + after
        case 3:
            return before + after[0] + letter + after[1:]
        case _:
            return before + stream.choice(_NEIGHBOURS.get(letter, "") or letter) + after


def write_note(builder: NoteBuilder, style: Style, writer: SentenceWriter, *, typing: Typing, stream: Stream) -> None:
    """Write the sections of the style into the builder, in order."""
    typing_stream = stream.branch("hand")  # separate, so that the rate of mistakes does not change the words
    small = typing_stream.chance(typing.small_letters)
    for section in style.sections:
        for number in range(stream.between(section.low, section.high)):
            if builder.sentences:
                builder.add_text(section.between if number else section.opens)
            builder.sentence(typing.write(writer.sentence(section.rule), typing_stream, small=small))


def patient_facts(stream: Stream) -> dict[str, str]:
    """Return facts about the patient: age, words for the sex, and whether the patient works."""
    age = stream.between(19, 94)
    names = ("sex", "he", "his", "him", "himself", "man")
    words = stream.choice(("M he his him himself man", "F she her her herself woman")).split()
    work = {"retired": "retired ", "works": "used to work"} if age > 66 else {"retired": "", "works": "works"}
    return {"age": str(age), **work, **dict(zip(names, words, strict=True))}


@dataclass(frozen=True, slots=True)
class Splits:
    """The documents of a hospital by split."""

    train: tuple[Document, ...] = field(repr=False)
    dev: tuple[Document, ...] = field(repr=False)
    test: tuple[Document, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SyntheticSite:
    """A synthetic hospital: its documents annotated with its own types, and with all types."""

    name: str
    style: str
    types: tuple[str, ...]
    train: tuple[Document, ...] = field(repr=False)
    dev: tuple[Document, ...] = field(repr=False)
    test: tuple[Document, ...] = field(repr=False)
    complete: Splits = field(repr=False)  # the same documents with the annotations of all types

    @classmethod
    def annotating(cls, types: tuple[str, ...], complete: Splits, *, name: str, style: str) -> SyntheticSite:
        """Return the hospital that annotates only `types` in these documents."""
        train, dev, test = (
            tuple(map(TagSet(types).restrict, documents)) for documents in (complete.train, complete.dev, complete.test)
        )
        return cls(name, style, types, train, dev, test, complete)
