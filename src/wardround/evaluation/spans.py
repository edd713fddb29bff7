"""Strict and relaxed scores of predicted against gold entities, on character offsets.

Strict: type and position indices equal, all ranges of a discontinuous mention included. Relaxed: same type and any
shared character. The two are those of FedNER (Ge et al. 2020, section 4.1). Relaxed pairs are one-to-one and as many
as there can be, so neither one long prediction over five gold mentions nor five crumbs of one gold mention earn
more than one, and exchanging gold and prediction changes no true positive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wardround.errors import TextError
from wardround.evaluation.confusion import Confusion, confuse
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.muc import MucScore, score_muc
from wardround.evaluation.overlaps import Overlaps, align, maximum_matching, mentions_of
from wardround.text.document import Document

__all__ = ["CorpusScore", "DocumentScore", "check_same_text", "score_corpus", "score_document"]


@dataclass(frozen=True, slots=True)
class DocumentScore:
    """All that is counted about the entities of one document."""

    strict: TypedCounts
    relaxed: TypedCounts
    muc: MucScore
    confusion: Confusion


@dataclass(frozen=True, slots=True)
class CorpusScore:
    """Sums over documents; the counts of each document are kept for the bootstrap."""

    strict: TypedCounts = field(default_factory=TypedCounts)
    relaxed: TypedCounts = field(default_factory=TypedCounts)
    muc: MucScore = field(default_factory=MucScore)
    confusion: Confusion = field(default_factory=Confusion)
    strict_by_document: tuple[TypedCounts, ...] = ()
    relaxed_by_document: tuple[TypedCounts, ...] = ()

    def __add__(self, other: CorpusScore) -> CorpusScore:
        """The score of both corpora together, for example of two sites."""
        return CorpusScore(
            self.strict + other.strict,
            self.relaxed + other.relaxed,
            self.muc + other.muc,
            self.confusion + other.confusion,
            self.strict_by_document + other.strict_by_document,
            self.relaxed_by_document + other.relaxed_by_document,
        )

    @property
    def documents(self) -> int:
        """How many documents were scored."""
        return len(self.strict_by_document)


def score_document(gold: Document, predicted: Document) -> DocumentScore:
    """Score the entities of `predicted` against those of `gold`, two annotations of one text."""
    check_same_text(gold, predicted)
    overlaps = align(mentions_of(gold.entities), mentions_of(predicted.entities))
    exact = _exact_pairs(overlaps)
    relaxed = maximum_matching(_same_type_neighbours(overlaps), exact)
    return DocumentScore(
        strict=_count(overlaps, exact.keys()),
        relaxed=_count(overlaps, relaxed.keys()),
        muc=score_muc(overlaps),
        confusion=confuse(overlaps, relaxed),
    )


def score_corpus(pairs: Iterable[tuple[Document, Document]]) -> CorpusScore:
    """Score (gold, predicted) pairs one at a time; no document is kept."""
    strict, relaxed = list[TypedCounts](), list[TypedCounts]()
    muc, confusion = MucScore(), Confusion()
    for gold, predicted in pairs:
        score = score_document(gold, predicted)
        strict.append(score.strict)
        relaxed.append(score.relaxed)
        muc, confusion = muc + score.muc, confusion + score.confusion
    nothing = TypedCounts()
    return CorpusScore(sum(strict, nothing), sum(relaxed, nothing), muc, confusion, tuple(strict), tuple(relaxed))


def check_same_text(gold: Document, predicted: Document) -> None:
    """Refuse a pair whose offsets cannot be compared."""
    if gold.text != predicted.text:
        raise TextError(
            f"document {gold.id!r}: gold and prediction {predicted.id!r} have different texts "
            f"({len(gold.text)} and {len(predicted.text)} characters); predict on the gold text itself"
        )


def _exact_pairs(overlaps: Overlaps) -> dict[int, int]:
    place = {mention: position for position, mention in enumerate(overlaps.gold)}
    return {position: place[mention] for position, mention in enumerate(overlaps.predicted) if mention in place}


def _same_type_neighbours(overlaps: Overlaps) -> list[list[int]]:
    return [
        [gold for gold in row if overlaps.gold[gold].type == mention.type]
        for mention, row in zip(overlaps.predicted, overlaps.shared, strict=True)
    ]


def _count(overlaps: Overlaps, right: Iterable[int]) -> TypedCounts:
    return TypedCounts.tally(
        gold=(mention.type for mention in overlaps.gold),
        predicted=(mention.type for mention in overlaps.predicted),
        right=(overlaps.predicted[position].type for position in right),
    )
