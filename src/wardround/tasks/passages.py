"""Documents as passages: the words that an extractor of entities and relations reads together.

With a window of W sentences, a passage owns W consecutive sentences and also reads the W − 1 that follow. Every word is
owned by one passage, and any two mentions within W consecutive sentences are both read by the passage that owns the
first word of the two. With W = 1 a passage is a sentence.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wardround.models.joint_extractor import SpanPair
from wardround.tasks.relation_instances import PairRules, candidate_pairs
from wardround.text.alignment import AlignmentCounts, align
from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import sentences_of
from wardround.text.tag_schemes import WordSpan

__all__ = ["Candidate", "CutDocument", "Passage", "Place", "cut_passages"]


class Place(NamedTuple):
    """The number of the passage that a pair belongs to, and the words of the pair."""

    passage: int
    spans: SpanPair


class Candidate(NamedTuple):
    """Two mentions that may be related, and their place; None if one of them is outside the words that are read."""

    head: Entity
    tail: Entity
    place: Place | None


@dataclass(frozen=True)
class Passage:
    """Words in order, the owned ones first, and the mentions that tags can express, as spans of words."""

    words: tuple[Range, ...]
    owned: int
    spans: tuple[WordSpan, ...] = ()

    def find(self, entity: Entity) -> WordSpan | None:
        """Return the words of a mention, or of its longest part if discontinuous; None if the passage lacks them."""
        start, end = entity.longest_range
        first = bisect_right(self.words, start, key=lambda word: word.end)
        last = bisect_left(self.words, end, key=lambda word: word.start)
        return WordSpan(first, last, entity.type) if first < last and end <= self.words[-1].end else None


@dataclass(frozen=True)
class CutDocument:
    """A document as passages, and counts of mentions that tags cannot express."""

    document: Document = field(repr=False)
    passages: tuple[Passage, ...]
    counts: AlignmentCounts

    def texts(self, passage: Passage) -> tuple[str, ...]:
        """Return the words of a passage as strings."""
        return tuple(self.document.text[start:end] for start, end in passage.words)

    def place(self, head: Entity, tail: Entity) -> Place | None:
        """Return the place of a pair; None if one of the two is outside the words that its passage reads."""
        start = min(head.longest_range, tail.longest_range).start
        number = bisect_right(self.passages, start, key=lambda passage: passage.words[passage.owned - 1].end)
        if number == len(self.passages):
            return None
        one, other = (self.passages[number].find(entity) for entity in (head, tail))
        return None if one is None or other is None else Place(number, SpanPair(one, other))

    def candidates(self, document: Document, rules: PairRules) -> Iterator[Candidate]:
        """Yield the candidate pairs of the same document with other entities, and the place of each.

        An untrained model may find a mention at every other word, so the pairs are yielded one by one.
        """
        for head, tail in candidate_pairs(document, rules):
            yield Candidate(head, tail, self.place(head, tail))


def cut_passages(document: Document, window: int) -> CutDocument:
    """Cut a document into passages for a window of so many sentences."""
    sentences = sentences_of(document)
    blocks = [sentences[start : start + window] for start in range(0, len(sentences), window)]
    # The owned part of a passage is tagged as one sentence.
    aligned = align(replace(document, sentences=tuple(Range(block[0].start, block[-1].end) for block in blocks)))
    words = [word for block in aligned.sentences for word in block.words]
    passages, start = list[Passage](), 0
    for block in aligned.sentences:
        stop = start + len(block.words)
        last = bisect_right(sentences, block.words[-1].start, key=lambda sentence: sentence.start)
        read_to = sentences[min(-(-last // window) * window + window - 1, len(sentences)) - 1].end
        end = max(stop, bisect_left(words, read_to, key=lambda word: word.start))
        passages.append(Passage(tuple(words[start:end]), stop - start, block.spans))
        start = stop
    return CutDocument(document, tuple(passages), aligned.counts)
