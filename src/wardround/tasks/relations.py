"""Relations: documents to labelled pairs of entities, a loss, and predictions back to relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter

import torch
from torch import Tensor

from wardround.errors import TrainingError
from wardround.evaluation.relation_scores import RelationScore, gold_entity_counts, score_relations
from wardround.models.relation_classifier import RelationClassifier
from wardround.tasks.batching import in_chunks, in_length_order
from wardround.tasks.relation_instances import (
    LabelledInstance,
    LabelledInstances,
    PairRules,
    RelationCounts,
    RelationInstance,
    draw_negatives,
    instances_of,
    labelled_instances,
    relations_of,
)
from wardround.tasks.task import (
    Example,
    Task,
    TaskKind,
    TaskScore,
    check_finite,
    label_rows,
)
from wardround.text.document import Document, Level, Relation
from wardround.text.relation_sets import RelationSet

__all__ = [
    "RELATIONS",
    "Predictions",
    "RelationTask",
    "ScoredRelations",
    "batch_loss",
    "encode",
    "logits",
    "predict",
    "rules_of",
    "score",
]

_INSTANCES_AHEAD = 1024  # instances held before predictions are returned: bounds memory, and lengths can be sorted


@dataclass(frozen=True)
class Predictions:
    """The scores of some instances, in their order.

    An instance that does not fit the encoder is `dropped`: its scores are all zero. They favour no class; because the
    negative class is the first, such an instance counts as negative.
    """

    logits: Tensor  # [instances, classes], on the CPU
    dropped: tuple[int, ...] = ()  # rows of the dropped instances

    @property
    def probabilities(self) -> Tensor:
        """Return p(class) of each instance, [instances, classes]."""
        return self.logits.softmax(-1)


@dataclass(frozen=True)
class ScoredRelations:
    """A score, and how many candidate pairs counted as negative because they do not fit the encoder."""

    score: RelationScore
    dropped: int = 0


def rules_of(model: RelationClassifier) -> PairRules:
    """Return how pairs are formed for this model."""
    return PairRules(model.relations, window=model.config.window, blinding=model.config.blinding)


def encode(
    documents: Iterable[Document], model: RelationClassifier, *, negatives: float | None = None, seed: int = 0
) -> LabelledInstances:
    """Return pairs that fit the model, with at most `negatives` pairs without a relation for each with one."""
    rules = rules_of(model)
    instances, counts = list[LabelledInstance](), RelationCounts()
    for document in documents:
        fitting = _without_too_long(labelled_instances([document], rules), model)
        instances += fitting.instances
        counts += fitting.counts
    found = LabelledInstances(tuple(instances), counts)
    if negatives is not None:
        found = draw_negatives(found, per_positive=negatives, seed=seed)
    if not found.instances:
        raise TrainingError(
            "the documents contain no pair of entities to train on; widen the window or check the types"
        )
    return found


def batch_loss(model: RelationClassifier, batch: Sequence[LabelledInstance]) -> Tensor:
    """Return the mean loss of the instances."""
    labels = label_rows((example.label for example in batch), model.class_rows)
    inputs = model.prepare([example.instance.text for example in batch]).to(model.device)
    return model.loss(inputs, labels.to(model.device))


@torch.inference_mode()
def logits(model: RelationClassifier, instances: Sequence[RelationInstance], *, batch_size: int = 64) -> Predictions:
    """Return the scores of the instances; except for rounding, they do not depend on the batch."""
    model.eval()
    pieces = model.pieces([instance.text for instance in instances])
    rows = [(index, row) for index, row in enumerate(pieces) if row is not None]
    scores = torch.zeros(len(instances), len(model.class_rows))
    for batch in in_length_order([len(row) for _, row in rows], batch_size):
        inputs = model.collate([rows[at][1] for at in batch]).to(model.device)
        scores[[rows[at][0] for at in batch]] = model.logits(inputs).float().cpu()
    return Predictions(check_finite(scores), tuple(index for index, row in enumerate(pieces) if row is None))


def predict(model: RelationClassifier, documents: Iterable[Document], *, batch_size: int = 64) -> Iterator[Document]:
    """Yield each document with the model's relations instead of its own, in order, in constant memory."""
    return (document for document, _ in _predicted(model, documents, batch_size))


def score(model: RelationClassifier, documents: Sequence[Document], *, batch_size: int = 64) -> ScoredRelations:
    """Score the model, with the entities given, against the documents' relations of its types.

    A relation that no instance can represent counts as not found.
    """
    predicted = list(_predicted(model, documents, batch_size))
    gold = [
        model.relations.with_ordered_ends(replace(document, relations=relations_of(document, model.relations)))
        for document in documents
    ]
    pairs = zip(gold, (document for document, _ in predicted), strict=True)
    return ScoredRelations(score_relations(pairs, scorer=gold_entity_counts), sum(dropped for _, dropped in predicted))


class RelationTask(Task):
    """Relations among given entities; trained on at most `negatives` pairs without a relation for each with one."""

    matching_modes = ("relations",)
    finds_entities = False

    def __init__(self, model: RelationClassifier, *, negatives: float | None = None, seed: int = 0) -> None:
        self.model: RelationClassifier = model
        self.negatives, self.seed = negatives, seed
        self.alignment_losses: Mapping[str, int] = {}

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Return the types that a relation can connect; the given entities may have others."""
        ends = (end for kind in self.model.relations.types for pair in kind.ends for end in pair)
        return tuple(dict.fromkeys(ends))

    def encode(self, documents: Iterable[Document]) -> Sequence[LabelledInstance]:
        """Return pairs that fit the encoder."""
        found = encode(documents, self.model, negatives=self.negatives, seed=self.seed)
        self.alignment_losses = asdict(found.counts)
        return found.instances

    def public(self, documents: Iterable[Document]) -> Sequence[LabelledInstance]:
        """Return every pair, including pairs that do not fit this encoder but may fit another."""
        found = labelled_instances(documents, rules_of(self.model), every_pair=True)
        self.alignment_losses = asdict(found.counts)
        if not found.instances:
            raise TrainingError("the public documents contain no pair of entities; widen the window or check the types")
        return found.instances

    def length(self, example: Example) -> int:
        """Return the number of characters."""
        return len(example.instance.text)

    def tokens(self, example: Example) -> int:
        """Return the number of words of the text around a pair."""
        return len(example.instance.text.split())

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        """Return the mean loss of the pairs."""
        return batch_loss(self.model, batch)

    def predict(self, documents: Iterable[Document], *, scored: bool = False) -> Iterator[Document]:
        """Yield each document with the model's relations among its entities."""
        return predict(self.model, documents)

    def score(self, documents: Sequence[Document]) -> TaskScore:
        """Score relations among the given entities."""
        found = score(self.model, documents)
        return TaskScore({"relations": found.score.by_document}, found.dropped)

    def classes(self) -> Mapping[str, int]:
        """Return the number of classes: one row for each pair."""
        return {"relations": len(self.model.class_rows)}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the classes of the pairs."""
        return {"relations": label_rows((example.label for example in batch), self.model.class_rows)}

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the scores of the output layer; all zero for a pair that does not fit the encoder."""
        rows = self.model.pieces([example.instance.text for example in batch])
        fitting = [row for row in rows if row is not None]
        scores = torch.zeros(len(rows), len(self.model.class_rows), device=self.model.device)
        if fitting:
            places = torch.tensor([row is not None for row in rows], device=self.model.device)
            found = self.model.logits(self.model.collate(fitting).to(self.model.device)).float()
            scores = scores.masked_scatter(places[:, None], found)
        return {"relations": scores}


def _without_too_long(labelled: LabelledInstances, model: RelationClassifier) -> LabelledInstances:
    """Return one document's instances that fit the encoder; count a relation as lost with its last instance."""
    pieces = model.pieces([example.instance.text for example in labelled.instances])
    fitting = tuple(e for e, row in zip(labelled.instances, pieces, strict=True) if row is not None)
    negatives = sum(not e.relation for e in labelled.instances) - sum(not e.relation for e in fitting)
    before, after = ({e.relation for e in some if e.relation} for some in (labelled.instances, fitting))
    lost = len(before) - len(after)
    change = RelationCounts(kept=-lost, too_long=lost, negatives=-negatives, negatives_too_long=negatives)
    return LabelledInstances(fitting, labelled.counts + change)


def _predicted(
    model: RelationClassifier, documents: Iterable[Document], batch_size: int
) -> Iterator[tuple[Document, int]]:
    """Yield each document with its predictions, and how many of its pairs do not fit the encoder."""
    rules = rules_of(model)
    paired = ((document, instances_of(document, rules)) for document in documents)
    # The document itself counts too, because it may contain no pair.
    for chunk in in_chunks(paired, lambda pair: 1 + len(pair[1]), _INSTANCES_AHEAD):
        predictions = logits(model, [instance for _, some in chunk for instance in some], batch_size=batch_size)
        probabilities, start = predictions.probabilities, 0
        for document, instances in chunk:
            end = start + len(instances)
            related = replace(document, relations=_relations(instances, probabilities[start:end], model.relations))
            yield model.relations.with_ordered_ends(related), sum(start <= row < end for row in predictions.dropped)
            start = end


def _relations(
    instances: Sequence[RelationInstance], probabilities: Tensor, relations: RelationSet
) -> tuple[Relation, ...]:
    """Return the likeliest class that each pair's types allow; among mentions of one concept, the likeliest wins."""
    best: dict[tuple[str, str], tuple[float, str]] = {}
    for instance, row in zip(instances, probabilities.tolist(), strict=True):
        allowed = (relations.negative, *relations.allowed(instance.head_type, instance.tail_type))
        scored = ((row[at], name) for at, name in enumerate(relations.names) if name in allowed)
        probability, name = max(scored, key=itemgetter(0))
        if name != relations.negative:
            for ends in instance.ends:
                key = ends if relations.directed or relations.level is Level.MENTION else (min(ends), max(ends))
                best[key] = max(best.get(key, (0.0, "")), (probability, name), key=itemgetter(0))
    named = enumerate(best.items(), start=1)
    return tuple(
        Relation(f"R{number}", name, *ends, relations.level, score=probability)
        for number, (ends, (probability, name)) in named
    )


RELATIONS = TaskKind(
    name="relations",
    bind=lambda model, settings: RelationTask(model, negatives=settings.negatives, seed=settings.seed),
    matching_modes=RelationTask.matching_modes,
    finds_entities=RelationTask.finds_entities,
    finds_relations=RelationTask.finds_relations,
    examples="pairs of entities",
)
