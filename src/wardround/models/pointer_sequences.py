"""Mentions as a sequence of outputs, and back: start, end and type of each, then an end symbol (Wang 2023, Eq. 2).

An output is a number: 0 is the end, followed by the types, then the words of the sentence. Start and end are the first
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

__all__ = ["END", "OutputSpace", "Targets", "parse_labels", "words_of_type"]

END = 0
_CAMEL_CASE = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP = re.compile(r"[\W_]+")


class Targets(NamedTuple):
    """The target outputs of the sentences of a batch."""

    outputs: Tensor  # [batch, steps]; padded with the end symbol
    written: Tensor  # [batch, steps], True up to and including the end
    taught: Tensor  # [batch, steps], True for mentions that a teacher added


@dataclass(frozen=True)
class OutputSpace:
    """The possible outputs of a step: the end, a type, or a word."""

    types: tuple[str, ...]

    @property
    def first_word(self) -> int:
        """Return the output of the sentence's first word."""
        return 1 + len(self.types)

    def sequence(self, spans: Iterable[WordSpan]) -> list[int]:
        """Return the outputs of the spans in their order, without the end."""
        first, rows = self.first_word, {kind: row for row, kind in enumerate(self.types, start=1)}
        return [part for start, end, kind in spans for part in (first + start, first + end - 1, rows[kind])]

    def spans(self, outputs: Sequence[int], length: int) -> list[WordSpan]:
        """Return the mentions that a model wrote for a sentence of `length` words, up to the end.

        Invalid parts are ignored: a type that does not follow exactly one start and one end, a mention that starts
        after its end or lies outside the sentence, and one that overlaps an earlier mention.
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
            if len(pointed) == 2 and pointed[0] <= pointed[1] < length:
                words = range(pointed[0], pointed[1] + 1)
                if taken.isdisjoint(words):
                    taken.update(words)
                    found.append(WordSpan(words.start, words.stop, self.types[output - 1]))
            pointed = []
        return found

    def targets(
        self, local: Sequence[Sequence[WordSpan]], taught: Sequence[Sequence[WordSpan]], *, most: int
    ) -> Targets:
        """Return the targets: own mentions, then those of a teacher, at most `most` in all, then the end (Eq. 5)."""
        own = [self.sequence(spans[:most]) for spans in local]
        both = [self.sequence([*first, *second][:most]) for first, second in zip(local, taught, strict=True)]
        rows = [torch.tensor([*outputs, END]) for outputs in both]
        outputs = pad_sequence(rows, batch_first=True, padding_value=END)
        begins, ends = (torch.tensor([[len(row)] for row in part]) for part in (own, both))
        step = torch.arange(outputs.shape[1])[None]
        return Targets(outputs, step <= ends, (step >= begins) & (step < ends))


def parse_labels(text: str) -> Mapping[str, str]:
    """Parse `ADE=adverse drug effect, Drug=medicine` into a mapping from types to words."""
    labels: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, equals, words = (piece.strip() for piece in part.partition("="))
        if not equals or not kind or not words:
            raise ModelError(f"labels: {part!r} is not a label; write a type, = and words: ADE=adverse drug effect")
        if kind in labels:
            raise ModelError(f"labels: the type {kind!r} has two labels; leave one out")
        labels[kind] = words
    return labels


def words_of_type(kind: str) -> str:
    """Return a type's name as words: `AdverseEffect` and `adverse_effect` give "adverse effect"; `ADE` stays."""
    words = list(filter(None, _GAP.split(_CAMEL_CASE.sub(" ", kind))))
    return " ".join(word if word.isupper() else word.lower() for word in words) or kind
