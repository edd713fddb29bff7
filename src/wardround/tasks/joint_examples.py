"""Passages with tags and labelled pairs, for a model of entities and relations, and counts of what they cannot express.

The pairs of a passage are all pairs that the relation set allows among its annotated mentions, including mentions that
tags cannot express because another mention has their words: a pair needs no tag.

Relations between concepts are first turned into relations between mentions, because a model that finds mentions knows
no concepts. Such a relation holds between every two mentions of its concepts within the window. If no pair can
represent it, it is kept between its two nearest mentions, so that a score counts it as not found. It is dropped only if
both concepts belong to the same single mention, or are the same concept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace

from wardround.errors import TrainingError
from wardround.models.joint_extractor import JointExtractor, SpanPair
from wardround.tasks.passages import CutDocument, cut_passages
from wardround.tasks.relation_instances import (
    LabelledInstances,
    PairRules,
    RelationCounts,
    labelled_instances,
    relations_of,
    sample_negatives,
)
from wardround.text.alignment import AlignmentCounts
from wardround.text.document import Document, Entity, Level, Relation

__all__ = [
    "JointCounts",
    "JointExample",
    "JointExamples",
    "LabelledPair",
    "RestrictedDocument",
    "encode",
    "mention_rules",
    "relate_mentions",
    "restrict_to_model",
]


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two mentions of a passage and the class of the pair."""

    spans: SpanPair
    label: str


@dataclass(frozen=True, slots=True)
class JointExample:
    """The words of a passage, a tag for each that it owns, and its pairs."""

    words: tuple[str, ...] = field(repr=False)
    tags: tuple[str, ...]
    pairs: tuple[LabelledPair, ...] = ()


@dataclass(frozen=True)
class JointCounts:
    """Counts of what happened to the annotation; counts can be added."""

    entities: AlignmentCounts = field(default_factory=AlignmentCounts)
    relations: RelationCounts = field(default_factory=RelationCounts)  # between mentions
    concepts: RelationCounts = field(default_factory=RelationCounts)  # relations between concepts
    relations_without_words: int = 0  # a mention is outside the words that are read
    negatives_without_words: int = 0

    def __add__(self, other: JointCounts) -> JointCounts:
        return JointCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def by_reason(self) -> dict[str, int]:
        """Return plain values; those of concepts only if there are any."""
        parts = {"entities": asdict(self.entities), "relations": asdict(self.relations)}
        if self.concepts != RelationCounts():
            parts["concepts"] = asdict(self.concepts)
        found = {f"{part}_{reason}": count for part, counts in parts.items() for reason, count in counts.items()}
        found["relations_without_words"] = self.relations_without_words
        found["relations_negatives_without_words"] = self.negatives_without_words
        return found


@dataclass(frozen=True)
class JointExamples:
    """Training examples, and counts of what happened to the annotation."""

    examples: tuple[JointExample, ...]
    counts: JointCounts


@dataclass(frozen=True)
class RestrictedDocument:
    """A document with only the annotation that a model learns, with relations between mentions, and its counts."""

    document: Document
    counts: JointCounts


def mention_rules(model: JointExtractor) -> PairRules:
    """Return which pairs of mentions this model classifies."""
    return PairRules(replace(model.relations, level=Level.MENTION), window=model.config.window)


def restrict_to_model(document: Document, model: JointExtractor) -> RestrictedDocument:
    """Keep the entities of the model's types, and the relations of its types among them, between mentions."""
    known = model.tag_set.restrict(document)
    before, after = (sum(r.type != model.relations.negative for r in d.relations) for d in (document, known))
    # A relation of an entity whose type is not learned is not learned either.
    counts = JointCounts(relations=RelationCounts(unknown_type=before - after))
    if model.relations.level is Level.CONCEPT:
        known, lost = relate_mentions(known, replace(mention_rules(model), relations=model.relations))
        counts += JointCounts(concepts=lost)
    return RestrictedDocument(known, counts)


def relate_mentions(document: Document, rules: PairRules) -> tuple[Document, RelationCounts]:
    """Turn the concept-level relations of the set into relations between mentions; return their counts too."""
    found = labelled_instances([document], rules)
    represented = {example.relation for example in found.instances}
    pairs: list[tuple[str, str, str]] = [
        (e.label, e.instance.head, e.instance.tail) for e in found.instances if e.relation
    ]
    for relation in relations_of(document, rules.relations):
        if relation.id not in represented:
            pairs += _nearest(relation, document)
    relations = tuple(Relation(f"R{number}", *ends) for number, ends in enumerate(dict.fromkeys(pairs), start=1))
    return rules.relations.with_ordered_ends(replace(document, relations=relations)), found.counts


def _nearest(relation: Relation, document: Document) -> Iterator[tuple[str, str, str]]:
    def distance(pair: tuple[Entity, Entity]) -> tuple[int, int, str, str]:
        left, right = pair
        gap = max(left.start, right.start) - min(left.end, right.end)
        return max(gap, 0), min(left.start, right.start), left.id, right.id

    heads, tails = ([e for e in document.entities if end in e.concepts] for end in (relation.head, relation.tail))
    pairs = [(head, tail) for head in heads for tail in tails if head.id != tail.id]
    if relation.head != relation.tail and pairs:
        head, tail = min(pairs, key=distance)
        yield relation.type, head.id, tail.id


def encode(
    documents: Iterable[Document],
    model: JointExtractor,
    *,
    negatives: float | None = None,
    seed: int = 0,
    every_pair: bool = False,
) -> JointExamples:
    """Return every passage, with at most `negatives` pairs without a relation for each with one.

    With `every_pair`, the pairs do not depend on the annotated relations (see `labelled_instances`).
    """
    examples, counts = list[JointExample](), JointCounts()
    for document in documents:
        restricted = restrict_to_model(document, model)
        cut = cut_passages(restricted.document, model.config.window)
        labelled = labelled_instances([restricted.document], mention_rules(model), every_pair=every_pair)
        pairs, lost = _pairs_by_passage(labelled, cut)
        counts += restricted.counts + JointCounts(cut.counts, labelled.counts) + lost
        for passage, some in zip(cut.passages, pairs, strict=True):
            tags = tuple(model.scheme.encode(passage.spans, passage.owned))
            examples.append(JointExample(cut.texts(passage), tags, tuple(some)))
    if not examples:
        raise TrainingError("the documents contain no sentence to train on")
    if negatives is None:
        return JointExamples(tuple(examples), counts)
    return _draw_negatives(
        JointExamples(tuple(examples), counts), model.relations.negative, per_positive=negatives, seed=seed
    )


def _pairs_by_passage(labelled: LabelledInstances, cut: CutDocument) -> tuple[list[list[LabelledPair]], JointCounts]:
    """Return the pairs of each passage, and a change of the counts for pairs that are in none."""
    entities = {entity.id: entity for entity in cut.document.entities}
    pairs: list[list[LabelledPair]] = [[] for _ in cut.passages]
    counts = JointCounts()
    for example in labelled.instances:
        placed = cut.place(entities[example.instance.head], entities[example.instance.tail])
        if placed is not None:
            pairs[placed[0]].append(LabelledPair(placed[1], example.label))
        elif example.relation:
            counts += JointCounts(relations=RelationCounts(kept=-1), relations_without_words=1)
        else:
            counts += JointCounts(relations=RelationCounts(negatives=-1), negatives_without_words=1)
    return pairs, counts


def _draw_negatives(joint: JointExamples, negative: str, *, per_positive: float, seed: int) -> JointExamples:
    """Keep the positives and a sample of the negatives (see `sample_negatives`)."""
    places = [(at, number) for at, e in enumerate(joint.examples) for number in range(len(e.pairs))]
    negatives = [(at, number) for at, number in places if joint.examples[at].pairs[number].label == negative]
    positives = len(places) - len(negatives)
    drawn = sample_negatives(negatives, positives=positives, per_positive=per_positive, seed=seed)
    dropped = set(negatives) - drawn
    change = RelationCounts(negatives=-len(dropped), negatives_not_drawn=len(dropped))
    examples = tuple(
        replace(e, pairs=tuple(pair for number, pair in enumerate(e.pairs) if (at, number) not in dropped))
        for at, e in enumerate(joint.examples)
    )
    return JointExamples(examples, joint.counts + JointCounts(relations=change))
