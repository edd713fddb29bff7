"""Alignment of character offsets with words (for word pieces see `text.windows`).

A sequence tagger assigns one tag to each word. It cannot express nested, crossing and discontinuous mentions, or
mentions that cut a word or cross a sentence. `Alignment` counts these losses; nothing is dropped silently.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import sentences_of, words_of
from wardround.text.tag_schemes import WordSpan

__all__ = ["Alignment", "AlignmentCounts", "Sentence", "align", "entities_from_spans"]


@dataclass(frozen=True)
class AlignmentCounts:
    """Counts of how mentions were aligned with words; they can be added."""

    exact: int = 0
    widened: int = 0  # the mention cuts a word; the whole word was used
    longest_part: int = 0  # discontinuous; its longest range was used
    overlapped: int = 0  # a longer mention already covers these words
    across_sentences: int = 0
    without_words: int = 0

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def losses(self) -> int:
        """Number of mentions that a tagger cannot learn from this text."""
        return self.overlapped + self.across_sentences + self.without_words


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and its mentions as spans of words."""

    words: tuple[Range, ...]
    spans: tuple[WordSpan, ...] = ()


@dataclass(frozen=True)
class Alignment:
    """A document as sentences of words."""

    document: Document = field(repr=False)
    sentences: tuple[Sentence, ...]
    counts: AlignmentCounts

    def texts(self, sentence: Sentence) -> list[str]:
        """Return the words of a sentence as strings."""
        return [self.document.text[start:end] for start, end in sentence.words]


def align(document: Document) -> Alignment:
    """Split the document into sentences of words and align its entities with them."""
    all_words = words_of(document)
    starts = [word.start for word in all_words]
    candidates = (
        all_words[bisect_left(starts, start) : bisect_left(starts, end)] for start, end in sentences_of(document)
    )
    sentences = [words for words in candidates if words]
    spans: list[list[WordSpan]] = [[] for _ in sentences]
    counts = AlignmentCounts()
    ranges = {entity.id: entity.longest_range for entity in document.entities}

    def longest_first(entity: Entity) -> tuple[int, Range, str, str]:
        start, end = ranges[entity.id]
        return start - end, ranges[entity.id], entity.type, entity.id

    # Of two overlapping mentions, the outer one is kept.
    for entity in sorted(document.entities, key=longest_first):
        range_ = ranges[entity.id]
        # The first sentence that ends after the start: a mention may begin in the white space before its first word.
        index = bisect_right(sentences, range_.start, key=lambda words: words[-1].end)
        if index == len(sentences):
            counts += AlignmentCounts(without_words=1)
        else:
            counts += _align_entity(entity, range_, sentences[index : index + 2], spans=spans[index])
    aligned = tuple(Sentence(words, tuple(sorted(mentions))) for words, mentions in zip(sentences, spans, strict=True))
    return Alignment(document, aligned, counts)


def entities_from_spans(sentence: Sentence, spans: Iterable[WordSpan]) -> list[tuple[str, Range]]:
    """Convert spans of words back to (type, character range) pairs."""
    return [(kind, Range(sentence.words[start].start, sentence.words[end - 1].end)) for start, end, kind in spans]


def _align_entity(
    entity: Entity, range_: Range, sentences: Sequence[tuple[Range, ...]], *, spans: list[WordSpan]
) -> AlignmentCounts:
    """Add the mention to `spans`, the spans of the first sentence; a second sentence is the one that follows."""
    words = sentences[0]
    start = bisect_right(words, range_.start, key=lambda word: word.end)
    end = bisect_left(words, range_.end, key=lambda word: word.start)
    if start >= end:
        return AlignmentCounts(without_words=1)
    if len(sentences) > 1 and sentences[1][0].start < range_.end:
        return AlignmentCounts(across_sentences=1)
    if any(start < other.end and other.start < end for other in spans):
        return AlignmentCounts(overlapped=1)
    spans.append(WordSpan(start, end, entity.type))
    if entity.is_discontinuous:
        return AlignmentCounts(longest_part=1)
    if (words[start].start, words[end - 1].end) != range_:
        return AlignmentCounts(widened=1)
    return AlignmentCounts(exact=1)
