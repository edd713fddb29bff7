"""Pairs of entities as instances for a relation classifier, and counts of relations that instances cannot express.

A pair is a candidate if both mentions are within a window of sentences and a relation type allows their types. Mentions
that share characters cannot be marked separately and are not candidates; a discontinuous mention is marked range by
range. A document of masked placeholders with a label (GAD, EU-ADR) is one instance, however many sentences it has.
Every annotated relation is either represented by an instance or counted as lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from random import Random
from typing import TypeVar

from wardround.errors import TextError, TrainingError
from wardround.models.relation_classifier import CONTEXT, FIRST, SECOND, MarkedText, Part
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet
from wardround.text.segmentation import sentences_of

__all__ = [
    "LabelledInstance",
    "LabelledInstances",
    "PairRules",
    "RelationCounts",
    "RelationInstance",
    "candidate_pairs",
    "draw_negatives",
    "instances_of",
    "labelled_instances",
    "relations_of",
    "sample_negatives",
]

_PLACEHOLDER = re.compile(r"@[A-Z]+\$")
_LABEL = "label"  # the attribute of a document that is one masked pair
Negative = TypeVar("Negative")


@dataclass(frozen=True)
class PairRules:
    """Which pairs of a document become instances, and in which form."""

    relations: RelationSet
    window: int = 1  # consecutive sentences that may contain the two mentions
    blinding: bool = True  # replace a mention by its type; the same words elsewhere stay

    def __post_init__(self) -> None:
        if self.window < 1:
            raise TextError(f"a window of {self.window} sentences contains no pair; it must be at least 1")


@dataclass(frozen=True, slots=True)
class RelationInstance:
    """One pair of mentions: e1 is the head of a directed relation, or the first mention of an undirected one."""

    document: str
    head: str  # entity ids
    tail: str
    head_type: str
    tail_type: str
    ends: tuple[tuple[str, str], ...]  # possible ends of a relation of this pair: the mentions, or their concepts
    text: MarkedText = field(repr=False)


@dataclass(frozen=True, slots=True)
class LabelledInstance:
    """An instance and its class; `relation` is the id of the annotated relation, empty for a negative."""

    instance: RelationInstance
    label: str
    relation: str = ""


@dataclass(frozen=True)
class RelationCounts:
    """Counts of annotated relations, and of pairs without one, by what happened to them; counts can be added."""

    kept: int = 0
    unknown_type: int = 0  # not a type to learn; its pair is a negative
    to_itself: int = 0
    doubled: int = 0  # an earlier relation has the same pair
    overlapping: int = 0  # the two mentions share characters
    against_types: int = 0  # the relation set does not allow these entity types
    out_of_window: int = 0
    too_long: int = 0  # the two mentions do not fit into the encoder together
    negatives: int = 0
    negatives_too_long: int = 0
    negatives_not_drawn: int = 0

    def __add__(self, other: RelationCounts) -> RelationCounts:
        return RelationCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def lost(self) -> int:
        """Return how many relations of the types to learn cannot be represented."""
        return (
            self.to_itself + self.doubled + self.overlapping + self.against_types + self.out_of_window + self.too_long
        )

    @property
    def relations(self) -> int:
        """Return how many relations were annotated."""
        return self.kept + self.unknown_type + self.lost


@dataclass(frozen=True)
class LabelledInstances:
    """The instances of some documents with their classes."""

    instances: tuple[LabelledInstance, ...]
    counts: RelationCounts


def instances_of(document: Document, rules: PairRules) -> tuple[RelationInstance, ...]:
    """Return every candidate pair once, in text order, whether it is annotated as related or not."""
    layout = _Layout.of(document)
    if _is_masked_pair(document):
        # The direction that the set allows; text order if it allows both or none.
        first, second = layout.entities
        head, tail = next(_orders(first, second, rules.relations), (first, second))
        if rules.relations.directed and any(relation.head == tail.id for relation in document.relations):
            raise TextError(
                f"document {document.id!r}: its relation runs from its second mention to its first; give the relation "
                "set the types of its ends, or make it undirected"
            )
        return (_instance(document, head, tail, layout=layout, rules=rules),)
    return tuple(_instance(document, *pair, layout=layout, rules=rules) for pair in _pairs(layout, rules))


def candidate_pairs(document: Document, rules: PairRules) -> Iterator[tuple[Entity, Entity]]:
    """Yield the head and tail of the same pairs one by one, without their text, to save memory."""
    return _pairs(_Layout.of(document), rules)


def _is_masked_pair(document: Document) -> bool:
    return (
        len(document.entities) == 2
        and dict(document.attributes).get(_LABEL) in ("0", "1")
        and all(_PLACEHOLDER.fullmatch(entity.text_in(document.text)) for entity in document.entities)
        and not document.entities[0].overlaps(document.entities[1])
    )


@dataclass(frozen=True)
class _Layout:
    """The entities of a document in order, its sentences, and the first and last sentence of each entity."""

    entities: tuple[Entity, ...]
    sentences: tuple[Range, ...]
    sentences_of: dict[str, tuple[int, int]]  # by entity id

    @classmethod
    def of(cls, document: Document) -> _Layout:
        whole = (Range(0, len(document.text)),)
        sentences = whole if _is_masked_pair(document) else sentences_of(document) or whole
        starts = [sentence.start for sentence in sentences]

        def sentence_at(character: int) -> int:
            return max(bisect_right(starts, character) - 1, 0)

        numbers = {e.id: (sentence_at(e.start), sentence_at(e.end - 1)) for e in document.entities}
        entities = sorted(document.entities, key=lambda entity: (entity.start, entity.end, entity.id))
        return cls(tuple(entities), sentences, numbers)

    def span(self, first: Entity, second: Entity) -> tuple[int, int]:
        """Return the first and the last sentence that contain the two."""
        (start, end), (other_start, other_end) = self.sentences_of[first.id], self.sentences_of[second.id]
        return min(start, other_start), max(end, other_end)

    def is_close(self, first: Entity, second: Entity, window: int) -> bool:
        """Return whether both are within `window` consecutive sentences."""
        start, end = self.span(first, second)
        return end - start < window


def _pairs(layout: _Layout, rules: PairRules) -> Iterator[tuple[Entity, Entity]]:
    for number, first in enumerate(layout.entities):
        for second in layout.entities[number + 1 :]:
            if layout.sentences_of[second.id][0] - layout.sentences_of[first.id][0] >= rules.window:
                break  # all following entities start even later
            if layout.is_close(first, second, rules.window) and not first.overlaps(second):
                yield from _orders(first, second, rules.relations)


def _orders(first: Entity, second: Entity, relations: RelationSet) -> Iterator[tuple[Entity, Entity]]:
    """Yield the directions in which the pair may be related."""
    orders = ((first, second), (second, first)) if relations.directed else ((first, second),)
    for head, tail in orders:
        if relations.allowed(head.type, tail.type) and _ends(head, tail, relations.level):
            yield head, tail


def _ends(head: Entity, tail: Entity, level: Level) -> tuple[tuple[str, str], ...]:
    if level is Level.MENTION:
        return ((head.id, tail.id),)
    pairs = ((one, other) for one in head.concepts for other in tail.concepts if one != other)
    return tuple(dict.fromkeys(pairs))


def _instance(document: Document, head: Entity, tail: Entity, *, layout: _Layout, rules: PairRules) -> RelationInstance:
    first, last = layout.span(head, tail)
    start = min(layout.sentences[first].start, head.start, tail.start)
    end = max(layout.sentences[last].end, head.end, tail.end)
    places = sorted(
        (range_, owner, entity.type) for owner, entity in ((FIRST, head), (SECOND, tail)) for range_ in entity.ranges
    )
    parts, position = list[Part](), start
    for (place_start, place_end), owner, kind in places:
        if position < place_start:
            parts.append(Part(document.text[position:place_start], CONTEXT))
        words = f"@{kind.upper()}$" if rules.blinding else document.text[place_start:place_end]
        parts.append(Part(words, owner))
        position = place_end
    if position < end:
        parts.append(Part(document.text[position:end], CONTEXT))
    return RelationInstance(
        document=document.id,
        head=head.id,
        tail=tail.id,
        head_type=head.type,
        tail_type=tail.type,
        ends=_ends(head, tail, rules.relations.level),
        text=MarkedText(tuple(parts)),
    )


def labelled_instances(
    documents: Iterable[Document], rules: PairRules, *, every_pair: bool = False
) -> LabelledInstances:
    """Return every candidate pair with its class, and counts of what happened to each annotated relation.

    A pair with a relation that the set does not allow is left out, because it is not a negative either. With
    `every_pair` it counts as a negative, so that the annotation does not change which pairs there are.
    """
    instances: list[LabelledInstance] = []
    counts = RelationCounts()
    for document in documents:
        labelled, document_counts = _labelled(document, rules, every_pair)
        instances += labelled
        counts += document_counts
    return LabelledInstances(tuple(instances), counts)


def _labelled(document: Document, rules: PairRules, every_pair: bool) -> tuple[list[LabelledInstance], RelationCounts]:
    relations = rules.relations
    annotated = sum(relation.type != relations.negative for relation in document.relations)
    known = relations_of(document, relations)
    learnable = [relation for relation in known if relation.head != relation.tail]
    counts = RelationCounts(unknown_type=annotated - len(known), to_itself=len(known) - len(learnable))
    labelled: list[LabelledInstance] = []
    doubled: set[str] = set()  # relations whose pair belongs to an earlier one
    for instance in instances_of(document, rules):
        ends = {*instance.ends, *(() if relations.directed else ((tail, head) for head, tail in instance.ends))}
        matching = [relation for relation in learnable if (relation.head, relation.tail) in ends]
        allowed = relations.allowed(instance.head_type, instance.tail_type)
        fitting = [relation for relation in matching if relation.type in allowed]
        if fitting:
            labelled.append(LabelledInstance(instance, fitting[0].type, fitting[0].id))
            doubled.update(relation.id for relation in fitting[1:])
        elif every_pair or not matching:
            labelled.append(LabelledInstance(instance, relations.negative))
    kept = {example.relation for example in labelled if example.relation}
    negatives = sum(not example.relation for example in labelled)
    counts += RelationCounts(kept=len(kept), negatives=negatives)
    layout = _Layout.of(document)
    for relation in learnable:
        if relation.id not in kept:
            is_doubled = relation.id in doubled
            counts += RelationCounts(doubled=1) if is_doubled else _reason_lost(relation, layout, rules.window)
    return labelled, counts


def relations_of(document: Document, relations: RelationSet) -> tuple[Relation, ...]:
    """Return the annotated relations of the types of a set; raise `TextError` if they have another level."""
    names = {kind.name for kind in relations.types}
    known = tuple(relation for relation in document.relations if relation.type in names)
    for relation in known:
        if relation.level is not relations.level:
            raise TextError(
                f"document {document.id!r}: relation {relation.id!r} is between {relation.level.value}s, those of the "
                f"relation set are between {relations.level.value}s; make the set from documents of this kind"
            )
    return known


def _reason_lost(relation: Relation, layout: _Layout, window: int) -> RelationCounts:
    """Return a count of one for the reason why no instance represents the relation."""

    def mentions_of(end: str) -> list[Entity]:
        if relation.level is Level.CONCEPT:
            return [entity for entity in layout.entities if end in entity.concepts]
        return [entity for entity in layout.entities if entity.id == end]

    pairs = [
        (head, tail) for head in mentions_of(relation.head) for tail in mentions_of(relation.tail) if head.id != tail.id
    ]
    close = [pair for pair in pairs if layout.is_close(*pair, window)]
    if not pairs:
        return RelationCounts(overlapping=1)  # two concepts of the same mention
    if not close:
        return RelationCounts(out_of_window=1)
    if all(head.overlaps(tail) for head, tail in close):
        return RelationCounts(overlapping=1)
    return RelationCounts(against_types=1)


def draw_negatives(labelled: LabelledInstances, *, per_positive: float, seed: int) -> LabelledInstances:
    """Keep the positives and a sample of the negatives (see `sample_negatives`)."""
    negatives = [index for index, example in enumerate(labelled.instances) if not example.relation]
    positives = len(labelled.instances) - len(negatives)
    drawn = sample_negatives(negatives, positives=positives, per_positive=per_positive, seed=seed)
    kept = tuple(e for index, e in enumerate(labelled.instances) if e.relation or index in drawn)
    dropped = len(negatives) - len(drawn)
    return LabelledInstances(kept, labelled.counts + RelationCounts(negatives=-dropped, negatives_not_drawn=dropped))


def sample_negatives(negatives: Sequence[Negative], *, positives: int, per_positive: float, seed: int) -> set[Negative]:
    """Draw at most `per_positive` negatives for each positive, by the seed; one negative without positives."""
    if not per_positive >= 0:
        raise TrainingError(f"negatives per positive is {per_positive}; it must be zero or above")
    count = round(min(len(negatives), per_positive * positives if positives else 1))
    generator = Random(f"{seed}/negatives")  # noqa: S311 – a choice, not a secret
    return set(generator.sample(negatives, count))
