"""Passages with tags and labelled pairs, for a model of entities and relations, and what these cannot express.

The pairs of a passage are all that the relation set allows among its annotated mentions, those too that tags cannot
express because another mention holds their words: a pair needs no tag. Relations between concepts are first put
between mentions (`tasks.mention_relations`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from random import Random

from wardround.errors import TrainingError
from wardround.models.joint_extractor import JointExtractor, SpanPair
from wardround.tasks.mention_relations import relate_mentions
from wardround.tasks.passages import CutDocument, cut_passages
from wardround.tasks.relation_instances import LabelledInstances, PairRules, RelationCounts, labelled_instances
from wardround.text.alignment import AlignmentCounts
from wardround.text.document import Document, Level

__all__ = [
    "JointCounts",
    "JointExample",
    "JointExamples",
    "LabelledPair",
    "Wanted",
    "encode",
    "mention_rules",
    "wanted_of",
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
    """What became of the annotation, as counts that add."""

    entities: AlignmentCounts = field(default_factory=AlignmentCounts)
    relations: RelationCounts = field(default_factory=RelationCounts)  # between mentions
    concepts: RelationCounts = field(default_factory=RelationCounts)  # of relations that were between concepts
    relations_without_words: int = 0  # a mention lies in no word that is read
    negatives_without_words: int = 0

    def __add__(self, other: JointCounts) -> JointCounts:
        return JointCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def by_reason(self) -> dict[str, int]:
        """Plain values; those of concepts only where there are any."""
        parts = {"entities": asdict(self.entities), "relations": asdict(self.relations)}
        if self.concepts != RelationCounts():
            parts["concepts"] = asdict(self.concepts)
        found = {f"{part}_{reason}": count for part, counts in parts.items() for reason, count in counts.items()}
        found["relations_without_words"] = self.relations_without_words
        found["relations_negatives_without_words"] = self.negatives_without_words
        return found


@dataclass(frozen=True)
class JointExamples:
    """What a model trains on, and what became of the annotation."""

    examples: tuple[JointExample, ...]
    counts: JointCounts


@dataclass(frozen=True)
class Wanted:
    """A document with the annotation that a model looks for, its relations between mentions; and what that took."""

    document: Document
    counts: JointCounts


def mention_rules(model: JointExtractor) -> PairRules:
    """Which pairs of mentions this model is asked about."""
    return PairRules(replace(model.relations, level=Level.MENTION), window=model.config.window)


def wanted_of(document: Document, model: JointExtractor) -> Wanted:
    """The entities of the types of the model, and the relations of its types among these, between mentions."""
    known = model.tag_set.restrict(document)
    before, after = (sum(r.type != model.relations.negative for r in d.relations) for d in (document, known))
    # A relation of an entity of a type that is not looked for is not looked for either.
    counts = JointCounts(relations=RelationCounts(unknown_type=before - after))
    if model.relations.level is Level.CONCEPT:
        known, lost = relate_mentions(known, replace(mention_rules(model), relations=model.relations))
        counts += JointCounts(concepts=lost)
    return Wanted(known, counts)


def encode(
    documents: Iterable[Document],
    model: JointExtractor,
    *,
    negatives: float | None = None,
    seed: int = 0,
    every_pair: bool = False,
) -> JointExamples:
    """What the model trains on: every passage, and at most `negatives` pairs without a relation for each with one.

    With `every_pair` its pairs do not depend on relations, as `labelled_instances` says.
    """
    examples, counts = list[JointExample](), JointCounts()
    for document in documents:
        wanted = wanted_of(document, model)
        cut = cut_passages(wanted.document, model.config.window)
        labelled = labelled_instances([wanted.document], mention_rules(model), every_pair=every_pair)
        pairs, lost = _place(labelled, cut)
        counts += wanted.counts + JointCounts(cut.counts, labelled.counts) + lost
        for passage, some in zip(cut.passages, pairs, strict=True):
            tags = tuple(model.scheme.encode(passage.spans, passage.owned))
            examples.append(JointExample(cut.texts(passage), tags, tuple(some)))
    if not examples:
        raise TrainingError("the documents contain no sentence to train on")
    if negatives is None:
        return JointExamples(tuple(examples), counts)
    return _draw(JointExamples(tuple(examples), counts), model.relations.negative, per_positive=negatives, seed=seed)


def _place(labelled: LabelledInstances, cut: CutDocument) -> tuple[list[list[LabelledPair]], JointCounts]:
    """The pairs of each passage, and a change of the counts for those that are in none."""
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


def _draw(found: JointExamples, negative: str, *, per_positive: float, seed: int) -> JointExamples:
    """At most so many negatives for each positive, drawn by the seed; where there is no positive, one negative."""
    if not per_positive >= 0:
        raise TrainingError(f"negatives per positive is {per_positive}; it must be zero or above")
    places = [(at, number) for at, e in enumerate(found.examples) for number in range(len(e.pairs))]
    negatives = [(at, number) for at, number in places if found.examples[at].pairs[number].label == negative]
    positives = len(places) - len(negatives)
    wanted = round(min(len(negatives), per_positive * positives if positives else 1))
    chance = Random(f"{seed}/negatives")  # noqa: S311 – a choice, not a secret
    dropped = set(negatives) - set(chance.sample(negatives, wanted))
    left = RelationCounts(negatives=-len(dropped), negatives_not_drawn=len(dropped))
    examples = tuple(
        replace(e, pairs=tuple(pair for number, pair in enumerate(e.pairs) if (at, number) not in dropped))
        for at, e in enumerate(found.examples)
    )
    return JointExamples(examples, found.counts + JointCounts(relations=left))
