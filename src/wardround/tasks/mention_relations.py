"""Relations between concepts as relations between mentions, for a model that finds mentions and knows no concept.

A relation between concepts holds between every two of their mentions that lie within the window. One that no pair can
carry stays, between its two nearest mentions, so that a score counts it as not found; nothing stands for it only where
both concepts are of one mention, or are the same concept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wardround.tasks.relation_instances import PairRules, RelationCounts, labelled_instances, relations_of
from wardround.text.document import Document, Entity, Relation

__all__ = ["relate_mentions"]

_Ends = tuple[str, str, str]  # type, head, tail


def relate_mentions(document: Document, rules: PairRules) -> tuple[Document, RelationCounts]:
    """The document with the concept-level relations of the set between mentions, and what became of each of them."""
    found = labelled_instances([document], rules)
    carried = {example.relation for example in found.instances}
    pairs: list[_Ends] = [(e.label, e.instance.head, e.instance.tail) for e in found.instances if e.relation]
    for relation in relations_of(document, rules.relations):
        if relation.id not in carried:
            pairs += _nearest(relation, document)
    relations = tuple(Relation(f"R{number}", *ends) for number, ends in enumerate(dict.fromkeys(pairs), start=1))
    return rules.relations.with_ordered_ends(replace(document, relations=relations)), found.counts


def _nearest(relation: Relation, document: Document) -> Iterator[_Ends]:
    heads, tails = ([e for e in document.entities if end in e.concepts] for end in (relation.head, relation.tail))
    pairs = [(head, tail) for head in heads for tail in tails if head.id != tail.id]
    if relation.head != relation.tail and pairs:
        head, tail = min(pairs, key=lambda pair: _distance(*pair))
        yield relation.type, head.id, tail.id


def _distance(left: Entity, right: Entity) -> tuple[int, int, str, str]:
    gap = max(left.start, right.start) - min(left.end, right.end)
    return max(gap, 0), min(left.start, right.start), left.id, right.id
