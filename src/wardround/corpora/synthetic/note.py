"""A note, section by section, and who it is about."""

from __future__ import annotations

from wardround.corpora.synthetic.grammar import NoteBuilder, SentenceWriter
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.style import Hand, Style
from wardround.text.document import Attributes

__all__ = ["SYNTHETIC", "patient_facts", "write_note"]

SYNTHETIC: Attributes = (("synthetic", "true"),)  # every document says that it is about nobody


def write_note(builder: NoteBuilder, style: Style, writer: SentenceWriter, *, hand: Hand, stream: Stream) -> None:
    """Write the sections of the style, in order, into the builder."""
    typing = stream.branch("hand")  # so that a clumsier hand writes the same words
    small = typing.chance(hand.small_letters)
    for section in style.sections:
        for number in range(stream.between(section.low, section.high)):
            if builder.sentences:
                builder.gap(section.between if number else section.opens)
            builder.sentence(hand.write(writer.sentence(section.rule), typing, small=small))


def patient_facts(stream: Stream) -> dict[str, str]:
    """Who the note is about: age, the words for the sex, and whether at work."""
    age = stream.between(19, 94)
    names = ("sex", "he", "his", "him", "himself", "man")
    words = stream.choice(("M he his him himself man", "F she her her herself woman")).split()
    work = {"retired": "retired ", "works": "used to work"} if age > 66 else {"retired": "", "works": "works"}
    return {"age": str(age), **work, **dict(zip(names, words, strict=True))}
