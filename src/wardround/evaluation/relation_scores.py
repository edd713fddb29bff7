"""Relation scores as counts by relation type, without the negative class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from wardround.errors import TextError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.entity_scores import check_same_text
from wardround.evaluation.overlaps import Mention
from wardround.text.document import Document, Level, Relation

__all__ = ["RelationScore", "RelationScorer", "gold_entity_counts", "score_relations", "strict_counts"]

_End: TypeAlias = Mention | str
_Key: TypeAlias = tuple[str, Level, _End, _End]
RelationScorer: TypeAlias = Callable[[Document, Document, Collection[str]], TypedCounts]


@dataclass(frozen=True, slots=True)
class RelationScore:
    """Counts by relation type, in total and for each document (for the bootstrap)."""

    counts: TypedCounts = field(default_factory=TypedCounts)
    by_document: tuple[TypedCounts, ...] = ()

    def __add__(self, other: RelationScore) -> RelationScore:
        return RelationScore(self.counts + other.counts, self.by_document + other.by_document)


def strict_counts(gold: Document, predicted: Document, negative: Collection[str] = ()) -> TypedCounts:
    """Count a relation as correct if type, direction and both entities (types and ranges) are equal.

    The ends of a relation between concepts are compared by concept id. Types in `negative` do not count.
    """
    check_same_text(gold, predicted)

    def keys(document: Document) -> set[_Key]:
        mentions = _mentions(document)

        def end(relation: Relation, name: str) -> _End:
            return mentions[name] if relation.level is Level.MENTION else name

        return {(r.type, r.level, end(r, r.head), end(r, r.tail)) for r in document.relations if r.type not in negative}

    return _count(keys(gold), keys(predicted))


def gold_entity_counts(gold: Document, predicted: Document, negative: Collection[str] = ()) -> TypedCounts:
    """Count a relation as correct if its type and the ids of head and tail are equal.

    `predicted` must have the gold entities. Types in `negative` ("no relation") do not count on either side.
    """
    check_same_text(gold, predicted)
    if _mentions(gold) != _mentions(predicted):
        raise TextError(
            f"document {gold.id!r}: the prediction has other entities than gold, so their ids do not compare; "
            "use the strict score"
        )

    def keys(document: Document) -> set[_Key]:
        return {(r.type, r.level, r.head, r.tail) for r in document.relations if r.type not in negative}

    return _count(keys(gold), keys(predicted))


def score_relations(
    pairs: Iterable[tuple[Document, Document]],
    *,
    scorer: RelationScorer = strict_counts,
    negative: Collection[str] = (),
) -> RelationScore:
    """Score (gold, predicted) pairs one at a time with `strict_counts` or `gold_entity_counts`."""
    by_document = tuple(scorer(gold, predicted, negative) for gold, predicted in pairs)
    return RelationScore(sum(by_document, TypedCounts()), by_document)


def _count(gold: set[_Key], predicted: set[_Key]) -> TypedCounts:
    return TypedCounts.tally(
        gold=(key[0] for key in gold),
        predicted=(key[0] for key in predicted),
        correct=(key[0] for key in gold & predicted),
    )


def _mentions(document: Document) -> dict[str, Mention]:
    return {entity.id: Mention(entity.ranges, entity.type) for entity in document.entities}
