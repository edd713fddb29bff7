"""Entities and the relations among them, end to end: a loss over both, and both back from raw text.

A relation is predicted between mentions, also by a model of relations between concepts: a mention found in raw text
has no concept. Such relations are learned and scored between mentions too, as `tasks.mention_relations` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import TrainingError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.entity_scores import score_corpus
from wardround.evaluation.relation_scores import gold_entity_counts, strict_counts
from wardround.models.joint_extractor import JointExtractor, PairRows
from wardround.tasks.joint_examples import JointExample, encode, mention_rules, wanted_of
from wardround.tasks.passages import Candidate, CutDocument, Place, cut_passages
from wardround.tasks.relation_instances import relations_of
from wardround.tasks.task import Example, Task, TaskScore, in_length_order
from wardround.text.document import Document, Entity, Range, Relation
from wardround.text.relation_sets import RelationSet

__all__ = ["JointTask", "predict", "score"]

_WORDS_AHEAD = 32_768  # words whose states are held before a prediction is given back: bounds memory
_LEAST_WORDS = 64  # that a document counts for, however short: so many documents at most are held
_PAIRS_TOGETHER, _PASSAGES_TOGETHER = 4096, 64  # the most that are scored at once


class JointTask(Task):
    """Entities and relations from raw text; of pairs without a relation, at most `negatives` for each with one.

    Its readings: `relations` is end to end, right only with the places and types of both entities; `given` is of
    relations among the annotated entities; `entities` is strict.
    """

    readings = ("relations", "given", "entities")

    def __init__(
        self, model: JointExtractor, *, negatives: float | None = None, seed: int = 0, relation_weight: float = 1.0
    ) -> None:
        if not 0.0 <= relation_weight < inf:
            raise TrainingError(f"relation_weight is {relation_weight}; it must be a number, zero or above")
        self.model: JointExtractor = model
        self.negatives, self.seed, self.relation_weight = negatives, seed, relation_weight
        self.lost: Mapping[str, int] = {}

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Those of the model."""
        return self.model.tag_set.types

    def encode(self, documents: Iterable[Document]) -> Sequence[JointExample]:
        """Passages with their tags and pairs."""
        found = encode(documents, self.model, negatives=self.negatives, seed=self.seed)
        self.lost = found.counts.by_reason()
        return found.examples

    def public(self, documents: Iterable[Document]) -> Sequence[JointExample]:
        """Every passage with every pair; pairs are of annotated entities, so that without any there are only tags."""
        found = encode(documents, self.model, every_pair=True)
        self.lost = found.counts.by_reason()
        return found.examples

    def length(self, example: Example) -> int:
        """In words."""
        return len(example.words)

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        """Mean over the passages of the negative log likelihood of their tags and, by its weight, of their pairs."""
        states = _states(self.model, [example.words for example in batch])
        owned = _owned([len(example.tags) for example in batch]).to(states.device)
        rows = [torch.tensor([self.model.tag_rows[tag] for tag in example.tags]) for example in batch]
        tags = pad_sequence(rows, batch_first=True).to(states.device)
        tag_loss = self.model.tag_loss(self.model.emissions(states[:, : tags.shape[1]]), owned, tags)
        labels = _classes(self.model, batch).to(states.device)
        relation_loss = self.model.relation_loss(self.model.relation_scores(states, self._pairs(batch)), labels)
        return (tag_loss + self.relation_weight * relation_loss) / len(batch)

    def predict(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Each document with the entities that are found in its text, and the relations among these."""
        return predict(self.model, documents)

    def score(self, documents: Sequence[Document]) -> TaskScore:
        """On the types of the model; a relation that no pair can carry counts as not found."""
        return score(self.model, documents)

    def classes(self) -> Mapping[str, int]:
        """A row a word, and a row a pair."""
        return {"tags": len(self.model.tags), "relations": len(self.model.class_rows)}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """The tags of the words that passages own, and the classes of their pairs."""
        tags = [self.model.tag_rows[tag] for example in batch for tag in example.tags]
        return {"tags": torch.tensor(tags, dtype=torch.long), "relations": _classes(self.model, batch)}

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """The emissions, and the scores of the relation head."""
        states = _states(self.model, [example.words for example in batch])
        owned = _owned([len(example.tags) for example in batch]).to(states.device)
        emissions = self.model.emissions(states[:, : owned.shape[1]])
        return {"tags": emissions[owned], "relations": self.model.relation_scores(states, self._pairs(batch))}

    def _pairs(self, batch: Sequence[JointExample]) -> PairRows:
        pairs = [(text, pair.spans) for text, example in enumerate(batch) for pair in example.pairs]
        return self.model.pair_rows(pairs, [len(example.words) for example in batch]).to(self.model.device)


def predict(model: JointExtractor, documents: Iterable[Document], *, batch_size: int = 64) -> Iterator[Document]:
    """Each document with the model's entities and relations in place of its own, in order, in constant memory."""
    bare = (document.with_entities(()) for document in documents)
    for read in _read(model, bare, batch_size):
        yield _related(model, read, _found(model, read)).document


def score(model: JointExtractor, documents: Sequence[Document], *, batch_size: int = 64) -> TaskScore:
    """The model against the documents' own annotation of its types, in the three readings of the task."""
    relations, given, pairs = list[TypedCounts](), list[TypedCounts](), list[tuple[Document, Document]]()
    dropped = 0
    for read in _read(model, (_gold(document, model) for document in documents), batch_size):
        gold = read.cut.document
        predicted = _related(model, read, _found(model, read)).document
        among = _related(model, read, gold.with_entities(gold.entities))
        relations.append(strict_counts(gold, predicted))
        given.append(gold_entity_counts(gold, among.document))
        pairs.append((gold, predicted))
        dropped += among.dropped
    entities = score_corpus(pairs)
    counts = (tuple(relations), tuple(given), entities.strict_by_document)
    return TaskScore(dict(zip(JointTask.readings, counts, strict=True)), dropped, entities)


# Reading, in calling order.


@dataclass(frozen=True)
class _Read:
    """A document and what the model says of its passages."""

    cut: CutDocument
    states: Sequence[Tensor] = field(repr=False)  # [words, width] each
    tags: Sequence[Sequence[str]]  # of the owned words


def _gold(document: Document, model: JointExtractor) -> Document:
    """The annotation that predictions are held against."""
    wanted = wanted_of(document, model).document
    relations = mention_rules(model).relations
    return relations.with_ordered_ends(replace(wanted, relations=relations_of(wanted, relations)))


def _read(model: JointExtractor, documents: Iterable[Document], batch_size: int) -> Iterator[_Read]:
    """Each document read, in order; so many at once that lengths can be sorted."""
    waiting: list[CutDocument] = []
    held = 0
    for document in documents:
        waiting.append(cut_passages(document, model.config.window))
        held += _LEAST_WORDS + sum(len(passage.words) for passage in waiting[-1].passages)
        if held >= _WORDS_AHEAD:
            yield from _read_chunk(model, waiting, batch_size)
            waiting, held = [], 0
    yield from _read_chunk(model, waiting, batch_size)


@torch.inference_mode()
def _read_chunk(model: JointExtractor, cuts: Sequence[CutDocument], batch_size: int) -> list[_Read]:
    model.eval()
    texts = [cut.texts(passage) for cut in cuts for passage in cut.passages]
    owned = [passage.owned for cut in cuts for passage in cut.passages]
    found: list[tuple[Tensor, list[str]]] = [(torch.empty(0), [])] * len(texts)
    for batch in in_length_order([len(text) for text in texts], batch_size):
        states = _states(model, [texts[index] for index in batch])
        mask = _owned([owned[index] for index in batch]).to(states.device)
        emissions = _finite(model.emissions(states[:, : mask.shape[1]]))
        for row, (index, tags) in enumerate(zip(batch, model.decode(emissions, mask), strict=True)):
            found[index] = states[row, : len(texts[index])].clone(), tags
    passages = iter(found)
    return [_of(cut, list(islice(passages, len(cut.passages)))) for cut in cuts]


def _of(cut: CutDocument, found: Sequence[tuple[Tensor, list[str]]]) -> _Read:
    return _Read(cut, [states for states, _ in found], [tags for _, tags in found])


def _found(model: JointExtractor, read: _Read) -> Document:
    """The document with the entities that its tags spell."""
    mentions = [
        (kind, Range(passage.words[start].start, passage.words[end - 1].end))
        for passage, tags in zip(read.cut.passages, read.tags, strict=True)
        for start, end, kind in model.scheme.spans(tags)
    ]
    numbered = enumerate(mentions, start=1)
    return read.cut.document.with_entities(Entity(f"T{number}", kind, (place,)) for number, (kind, place) in numbered)


@dataclass(frozen=True)
class _Related:
    document: Document
    dropped: int  # pairs that have no place among the words that are read


@torch.inference_mode()
def _related(model: JointExtractor, read: _Read, document: Document) -> _Related:
    """The document with the likeliest relations, of those that types allow, among its entities."""
    relations: list[Relation] = []
    dropped = 0
    for some in _together(read.cut.candidates(document, mention_rules(model))):
        placed = [(pair.head, pair.tail, pair.place) for pair in some if pair.place is not None]
        dropped += len(some) - len(placed)
        scores = _pair_scores(model, read, [place for _, _, place in placed])
        for (head, tail, _), row in zip(placed, scores, strict=True):
            name = _likeliest(row, model.relations, head.type, tail.type)
            if name != model.relations.negative:
                relations.append(Relation(f"R{len(relations) + 1}", name, head.id, tail.id))
    return _Related(replace(document, relations=tuple(relations)), dropped)


def _together(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    """Pairs that are scored at once: so many, of so many passages."""
    held, passages = list[Candidate](), set[int]()
    for candidate in candidates:
        held.append(candidate)
        passages |= {candidate.place.passage} if candidate.place else set()
        if len(held) == _PAIRS_TOGETHER or len(passages) == _PASSAGES_TOGETHER:
            yield held
            held, passages = [], set()
    yield held


def _pair_scores(model: JointExtractor, read: _Read, places: Sequence[Place]) -> list[list[float]]:
    """The scores of the classes of each pair."""
    if not places:
        return []
    texts = {passage: text for text, passage in enumerate(dict.fromkeys(place.passage for place in places))}
    held = [read.states[passage] for passage in texts]
    rows = model.pair_rows([(texts[passage], spans) for passage, spans in places], list(map(len, held)))
    scores = model.relation_scores(pad_sequence(held, batch_first=True), rows.to(model.device))
    found: list[list[float]] = _finite(scores).tolist()
    return found


def _likeliest(scores: Sequence[float], relations: RelationSet, head: str, tail: str) -> str:
    """The class with the highest score among the negative one and those that the types of the ends allow."""
    allowed = {relations.negative, *relations.allowed(head, tail)}
    return max(zip(scores, relations.names, strict=True), key=lambda it: it[0] if it[1] in allowed else -inf)[1]


# Batches.


def _states(model: JointExtractor, texts: Sequence[Sequence[str]]) -> Tensor:
    return model.states(model.prepare(texts).to(model.device))


def _owned(lengths: Sequence[int]) -> Tensor:
    """A mask [batch, words] over the owned words of passages, which are their first."""
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


def _classes(model: JointExtractor, batch: Sequence[JointExample]) -> Tensor:
    labels = [pair.label for example in batch for pair in example.pairs]
    unknown = sorted(set(labels) - model.class_rows.keys())
    if unknown:
        raise TrainingError(f"no class of the model is called {unknown[0]!r}; it has {', '.join(model.class_rows)}")
    return torch.tensor([model.class_rows[label] for label in labels], dtype=torch.long)


def _finite(scores: Tensor) -> Tensor:
    if not scores.isfinite().all():
        raise TrainingError("the model gives scores that are no numbers; its training has diverged, lower the rate")
    return scores
