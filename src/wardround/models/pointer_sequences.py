"""Mentions as a sequence of outputs, and back: the start, end and type of each, then the end of all (Wang 2023, Eq. 2).

An output is a number: 0 is the end, then come the types, then the words of the sentence. Start and end are the first
and the last word of a mention. "aspirin gave joint pain" with the types ADE and Drug is

    aspirin aspirin Drug joint pain ADE end
    3       3       2    5     6    1   0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import ModelError
from wardround.text.tag_schemes import WordSpan

__all__ = ["END", "OutputSpace", "Targets", "parse_labels", "spoken"]

END = 0
_HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP = re.compile(r"[\W_]+")


class Targets(NamedTuple):
    """What is to be written about the sentences of a batch."""

    outputs: Tensor  # [batch, steps]; behind a sequence's end, more of it
    written: Tensor  # [batch, steps], True up to the end
    taught: Tensor  # [batch, steps], True for mentions that a teacher added


@dataclass(frozen=True)
class OutputSpace:
    """What a step can write: the end, a type, or a word."""

    types: tuple[str, ...]

    @property
    def first_word(self) -> int:
        """The output that is the sentence's first word."""
        return 1 + len(self.types)

    def sequence(self, spans: Iterable[WordSpan]) -> list[int]:
        """The spans in their order, without the end."""
        first, rows = self.first_word, {kind: row for row, kind in enumerate(self.types, start=1)}
        return [part for start, end, kind in spans for part in (first + start, first + end - 1, rows[kind])]

    def spans(self, outputs: Sequence[int], length: int) -> list[WordSpan]:
        """The mentions that a model wrote of a sentence of `length` words, up to the end.

        Irregular parts are left out: a type that does not follow exactly a start and an end, a mention that begins
        after its end or lies outside the sentence, and one that takes a word of a mention before it.
        """
        found: list[WordSpan] = []
        pointed: list[int] = []
        taken: set[int] = set()
        for output in outputs:
            if output == END:
                break
            if output >= self.first_word:
                pointed.append(output - self.first_word)
                continue
            words = _words(pointed, length)
            if words and taken.isdisjoint(words):
                taken.update(words)
                found.append(WordSpan(words.start, words.stop, self.types[output - 1]))
            pointed = []
        return found

    def targets(
        self, local: Sequence[Sequence[WordSpan]], taught: Sequence[Sequence[WordSpan]], *, most: int
    ) -> Targets:
        """Of each sentence its own mentions, then those that a teacher added, at most so many, then the end (Eq. 5)."""
        own = [self.sequence(spans[:most]) for spans in local]
        both = [self.sequence([*first, *second][:most]) for first, second in zip(local, taught, strict=True)]
        rows = [torch.tensor([*outputs, END]) for outputs in both]
        outputs = pad_sequence(rows, batch_first=True, padding_value=END)
        begins, ends = (torch.tensor([[len(row)] for row in part]) for part in (own, both))
        step = torch.arange(outputs.shape[1])[None]
        return Targets(outputs, step <= ends, (step >= begins) & (step < ends))


def _words(pointed: Sequence[int], length: int) -> range | None:
    """The words from a start to an end, or None where the two are not all that was pointed at, or make no mention."""
    if len(pointed) != 2 or not pointed[0] <= pointed[1] < length:
        return None
    return range(pointed[0], pointed[1] + 1)


def parse_labels(text: str) -> Mapping[str, str]:
    """`ADE=adverse drug effect, Drug=medicine` as a mapping from types to what is read for them."""
    labels: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, equals, words = (piece.strip() for piece in part.partition("="))
        if not equals or not kind or not words:
            raise ModelError(f"labels: {part!r} is no label; write a type, = and words: ADE=adverse drug effect")
        if kind in labels:
            raise ModelError(f"labels: the type {kind!r} has two labels; leave one out")
        labels[kind] = words
    return labels


def spoken(kind: str) -> str:
    """A type's name as words: `AdverseEffect` and `adverse_effect` are both "adverse effect", `ADE` stays."""
    words = list(filter(None, _GAP.split(_HUMP.sub(" ", kind))))
    return " ".join(word if word.isupper() else word.lower() for word in words) or kind
