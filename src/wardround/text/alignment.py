"""Characters ↔ words (word pieces: `text.pieces`).

A sequence tagger sees words in order, one tag each. What it cannot express – nested, crossing and discontinuous
mentions, mentions that cut a word or cross a sentence – is counted in `Alignment`, never dropped in silence.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wardround.text.document import Document, Entity, Range
from wardround.text.sentences import sentences_of
from wardround.text.tag_schemes import WordSpan
from wardround.text.words import words_of

__all__ = ["Alignment", "AlignmentCounts", "Sentence", "align", "entities_from_spans"]


@dataclass(frozen=True)
class AlignmentCounts:
    """What one tag a word could not express, as counts that add."""

    exact: int = 0
    widened: int = 0  # the mention cuts a word: the whole word was taken
    longest_part: int = 0  # discontinuous: its longest range was taken
    overlapped: int = 0  # another, longer mention holds these words
    across_sentences: int = 0
    without_words: int = 0

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def lost(self) -> int:
        """Mentions a tagger cannot learn from this text."""
        return self.overlapped + self.across_sentences + self.without_words


@dataclass(frozen=True)
class Sentence:
    """A sentence as words, and its mentions as spans of them."""

    words: tuple[Range, ...]
    spans: tuple[WordSpan, ...] = ()


@dataclass(frozen=True)
class Alignment:
    """A document as sentences of words."""

    document: Document = field(repr=False)
    sentences: tuple[Sentence, ...]
    counts: AlignmentCounts

    def texts(self, sentence: Sentence) -> list[str]:
        """The words of a sentence as strings."""
        return [self.document.text[start:end] for start, end in sentence.words]


def align(document: Document) -> Alignment:
    """Cut the document into sentences of words and lay its entities over them."""
    groups = _group_words(words_of(document), sentences_of(document))
    spans, counts = _lay_entities(document.entities, groups)
    sentences = tuple(Sentence(words, tuple(sorted(held))) for words, held in zip(groups, spans, strict=True))
    return Alignment(document, sentences, counts)


def entities_from_spans(sentence: Sentence, spans: Iterable[WordSpan]) -> list[tuple[str, Range]]:
    """Spans of words back as (type, characters)."""
    return [(kind, Range(sentence.words[start].start, sentence.words[end - 1].end)) for start, end, kind in spans]


def _group_words(words: Sequence[Range], sentences: Sequence[Range]) -> list[tuple[Range, ...]]:
    starts = [word.start for word in words]
    groups = []
    for start, end in sentences:
        held = tuple(words[bisect_left(starts, start) : bisect_left(starts, end)])
        if held:
            groups.append(held)
    return groups


def _lay_entities(
    entities: Iterable[Entity], groups: Sequence[tuple[Range, ...]]
) -> tuple[list[list[WordSpan]], AlignmentCounts]:
    spans: list[list[WordSpan]] = [[] for _ in groups]
    first_characters = [group[0].start for group in groups]
    counts = AlignmentCounts()
    # The longest mention first, so that of two that overlap the outer one is kept.
    for entity in sorted(entities, key=lambda e: (e.start - e.end, e.start, e.type, e.id)):
        wanted = max(entity.ranges, key=lambda r: r.end - r.start)
        index = bisect_right(first_characters, wanted.start) - 1
        counts += _lay(entity, wanted, groups, index=max(index, 0), spans=spans)
    return spans, counts


def _lay(
    entity: Entity,
    wanted: Range,
    groups: Sequence[tuple[Range, ...]],
    *,
    index: int,
    spans: list[list[WordSpan]],
) -> AlignmentCounts:
    if not groups:
        return AlignmentCounts(without_words=1)
    words = groups[index]
    start = bisect_right([word.end for word in words], wanted.start)
    end = bisect_left([word.start for word in words], wanted.end)
    if start >= end:
        return AlignmentCounts(without_words=1)
    if wanted.end > words[-1].end and index + 1 < len(groups) and groups[index + 1][0].start < wanted.end:
        return AlignmentCounts(across_sentences=1)
    if any(start < held.end and held.start < end for held in spans[index]):
        return AlignmentCounts(overlapped=1)
    spans[index].append(WordSpan(start, end, entity.type))
    if entity.is_discontinuous:
        return AlignmentCounts(longest_part=1)
    if (words[start].start, words[end - 1].end) != wanted:
        return AlignmentCounts(widened=1)
    return AlignmentCounts(exact=1)
