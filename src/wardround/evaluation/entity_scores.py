"""Strict and relaxed scores of predicted entities against gold entities, by character offsets.

Strict requires the same type and the same character ranges, including all ranges of a discontinuous mention. Relaxed
requires the same type and at least one shared character. Both follow FedNER (Ge et al. 2020, section 4.1). Relaxed
pairs are one-to-one and as many as possible: one long prediction over five gold mentions counts once, and so do five
short predictions inside one gold mention. Exchanging gold and prediction changes no true positive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wardround.errors import TextError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.muc import MucScore, score_muc
from wardround.evaluation.overlaps import Overlaps, find_overlaps, maximum_matching, mentions_of
from wardround.text.document import Document

__all__ = ["Cell", "Confusion", "CorpusScore", "DocumentScore", "check_same_text", "score_corpus", "score_document"]

Cell = tuple[str | None, str | None]  # gold type (None: spurious), predicted type (None: missed)


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often each gold type was predicted as each type.

    A row sums to the gold mentions of its type, a column to the predicted ones. The diagonal holds the relaxed true
    positives.
    """

    counts: Mapping[Cell, int] = field(default_factory=dict)

    def __add__(self, other: Confusion) -> Confusion:
        return Confusion(dict(Counter(self.counts) + Counter(other.counts)))

    def __getitem__(self, cell: Cell) -> int:
        return self.counts.get(cell, 0)

    @property
    def types(self) -> tuple[str, ...]:
        """All types that occur, sorted."""
        return tuple(sorted({type_ for cell in self.counts for type_ in cell if type_ is not None}))

    def rows(self, types: Sequence[str] | None = None) -> list[list[int]]:
        """Return the matrix: gold rows and a last row of spurious ones, predicted columns and a last column missed."""
        order = [*(self.types if types is None else types), None]
        return [[self[gold, predicted] for predicted in order] for gold in order]


@dataclass(frozen=True, slots=True)
class DocumentScore:
    """All entity counts of one document."""

    strict: TypedCounts
    relaxed: TypedCounts
    muc: MucScore
    confusion: Confusion


@dataclass(frozen=True, slots=True)
class CorpusScore:
    """Sums over documents, and the counts of each document for the bootstrap."""

    strict: TypedCounts = field(default_factory=TypedCounts)
    relaxed: TypedCounts = field(default_factory=TypedCounts)
    muc: MucScore = field(default_factory=MucScore)
    confusion: Confusion = field(default_factory=Confusion)
    strict_by_document: tuple[TypedCounts, ...] = ()
    relaxed_by_document: tuple[TypedCounts, ...] = ()

    def __add__(self, other: CorpusScore) -> CorpusScore:
        """Return the score of both corpora together, for example of two sites."""
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
        """Number of documents scored."""
        return len(self.strict_by_document)


def score_document(gold: Document, predicted: Document) -> DocumentScore:
    """Score the entities of `predicted` against those of `gold`; both annotate the same text."""
    check_same_text(gold, predicted)
    overlaps = find_overlaps(mentions_of(gold.entities), mentions_of(predicted.entities))
    position_of = {mention: position for position, mention in enumerate(overlaps.gold)}
    exact = {p: position_of[mention] for p, mention in enumerate(overlaps.predicted) if mention in position_of}
    same_type = [
        [gold for gold in row if overlaps.gold[gold].type == mention.type]
        for mention, row in zip(overlaps.predicted, overlaps.shared, strict=True)
    ]
    relaxed = maximum_matching(same_type, exact)

    def count(correct: Iterable[int]) -> TypedCounts:
        return TypedCounts.tally(
            gold=(mention.type for mention in overlaps.gold),
            predicted=(mention.type for mention in overlaps.predicted),
            correct=(overlaps.predicted[position].type for position in correct),
        )

    return DocumentScore(count(exact), count(relaxed), score_muc(overlaps), _confusion(overlaps, relaxed))


def score_corpus(pairs: Iterable[tuple[Document, Document]]) -> CorpusScore:
    """Score (gold, predicted) pairs one at a time, without keeping the documents."""
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
    """Raise `TextError` if the two documents have different texts, because their offsets do not compare."""
    if gold.text != predicted.text:
        raise TextError(
            f"document {gold.id!r}: gold and prediction {predicted.id!r} have different texts "
            f"({len(gold.text)} and {len(predicted.text)} characters); predict on the gold text itself"
        )


def _confusion(overlaps: Overlaps, relaxed: Mapping[int, int]) -> Confusion:
    """Return the confusion of one document, starting from its relaxed pairs (predicted → gold position).

    Each remaining prediction is paired with the free gold mention it shares most characters with, of any type.
    """
    pairs = dict(relaxed)
    taken = set(pairs.values())
    longest_first = sorted(
        (-length, predicted, gold) for predicted, row in enumerate(overlaps.shared) for gold, length in row.items()
    )
    for _, predicted, gold in longest_first:
        if predicted not in pairs and gold not in taken:
            pairs[predicted] = gold
            taken.add(gold)
    cells: list[Cell] = [(overlaps.gold[g].type, overlaps.predicted[p].type) for p, g in pairs.items()]
    cells += [(mention.type, None) for g, mention in enumerate(overlaps.gold) if g not in taken]
    cells += [(None, mention.type) for p, mention in enumerate(overlaps.predicted) if p not in pairs]
    return Confusion(dict(Counter(cells)))
