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
    def losses(self) -> int:
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
    counts = AlignmentCounts()
    wanted = [(entity, max(entity.ranges, key=_length)) for entity in entities]
    # The longest mention first, so that of two that overlap the outer one is kept.
    for entity, range_ in sorted(wanted, key=lambda pair: (-_length(pair[1]), pair[1], pair[0].type, pair[0].id)):
        # The first sentence with a word left to read: a mention may begin in the blanks before it.
        index = bisect_right(groups, range_.start, key=lambda words: words[-1].end)
        if index == len(groups):
            counts += AlignmentCounts(without_words=1)
        else:
            counts += _lay(entity, range_, groups[index : index + 2], held=spans[index])
    return spans, counts


def _lay(
    entity: Entity, wanted: Range, groups: Sequence[tuple[Range, ...]], *, held: list[WordSpan]
) -> AlignmentCounts:
    """Add the mention to `held`, the spans of the first of `groups`; the second is the sentence that follows."""
    words = groups[0]
    start = bisect_right(words, wanted.start, key=lambda word: word.end)
    end = bisect_left(words, wanted.end, key=lambda word: word.start)
    if start >= end:
        return AlignmentCounts(without_words=1)
    if len(groups) > 1 and groups[1][0].start < wanted.end:
        return AlignmentCounts(across_sentences=1)
    if any(start < other.end and other.start < end for other in held):
        return AlignmentCounts(overlapped=1)
    held.append(WordSpan(start, end, entity.type))
    if entity.is_discontinuous:
        return AlignmentCounts(longest_part=1)
    if (words[start].start, words[end - 1].end) != wanted:
        return AlignmentCounts(widened=1)
    return AlignmentCounts(exact=1)


def _length(range_: Range) -> int:
    return range_.end - range_.start
