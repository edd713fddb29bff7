"""Relation scores as counts, by relation type and without the negative class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from wardround.errors import TextError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.overlaps import Mention
from wardround.evaluation.spans import check_same_text
from wardround.text.document import Document, Level, Relation

__all__ = ["RelationScore", "RelationScorer", "given_gold", "score_relations", "strict"]

_End: TypeAlias = Mention | str
_Key: TypeAlias = tuple[str, Level, _End, _End]
RelationScorer: TypeAlias = Callable[[Document, Document, Collection[str]], TypedCounts]


@dataclass(frozen=True, slots=True)
class RelationScore:
    """Counts by relation type, and those of each document for the bootstrap. Micro-F1 is `counts.micro.f1`."""

    counts: TypedCounts = field(default_factory=TypedCounts)
    by_document: tuple[TypedCounts, ...] = ()

    def __add__(self, other: RelationScore) -> RelationScore:
        return RelationScore(self.counts + other.counts, self.by_document + other.by_document)


def strict(gold: Document, predicted: Document, negative: Collection[str] = ()) -> TypedCounts:
    """Right means: the type, the direction, and both entities with their types and ranges.

    The ends of a relation between concepts are compared by concept id. Types in `negative` do not count.
    """
    check_same_text(gold, predicted)
    return _count(_strict_keys(gold, negative), _strict_keys(predicted, negative))


def given_gold(gold: Document, predicted: Document, negative: Collection[str] = ()) -> TypedCounts:
    """Right means: the type and the ids of head and tail; `predicted` must carry the gold entities.

    Types in `negative` ("no relation") do not count, on neither side.
    """
    check_same_text(gold, predicted)
    if _places(gold) != _places(predicted):
        raise TextError(
            f"document {gold.id!r}: the prediction has other entities than gold, so their ids do not compare; "
            "use the strict score"
        )
    return _count(_id_keys(gold, negative), _id_keys(predicted, negative))


def score_relations(
    pairs: Iterable[tuple[Document, Document]], *, scorer: RelationScorer = strict, negative: Collection[str] = ()
) -> RelationScore:
    """Score (gold, predicted) pairs one at a time with `strict` or `given_gold`."""
    by_document = tuple(scorer(gold, predicted, negative) for gold, predicted in pairs)
    return RelationScore(sum(by_document, TypedCounts()), by_document)


def _count(gold: set[_Key], predicted: set[_Key]) -> TypedCounts:
    return TypedCounts.tally(
        gold=(key[0] for key in gold),
        predicted=(key[0] for key in predicted),
        right=(key[0] for key in gold & predicted),
    )


def _strict_keys(document: Document, negative: Collection[str]) -> set[_Key]:
    mentions = _places(document)

    def end(relation: Relation, name: str) -> _End:
        return mentions[name] if relation.level is Level.MENTION else name

    return {(r.type, r.level, end(r, r.head), end(r, r.tail)) for r in document.relations if r.type not in negative}


def _id_keys(document: Document, negative: Collection[str]) -> set[_Key]:
    return {(r.type, r.level, r.head, r.tail) for r in document.relations if r.type not in negative}


def _places(document: Document) -> dict[str, Mention]:
    return {entity.id: Mention(entity.ranges, entity.type) for entity in document.entities}
