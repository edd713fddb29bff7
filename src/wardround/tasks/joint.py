"""Entities and the relations among them, end to end: a loss over both, and predictions of both from raw text.

Relations are always predicted between mentions, even if the corpus relates concepts: a mention found in raw text has no
concept. Relations between concepts are therefore learned and scored between mentions (`relate_mentions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, repeat
from math import exp, inf
from operator import itemgetter

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import TrainingError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.entity_scores import score_corpus
from wardround.evaluation.relation_scores import gold_entity_counts, strict_counts
from wardround.models.joint_extractor import JointExtractor, PairRows
from wardround.tasks.batching import in_chunks, in_length_order
from wardround.tasks.joint_examples import JointExample, encode, mention_rules, restrict_to_model
from wardround.tasks.passages import Candidate, CutDocument, Place, cut_passages
from wardround.tasks.relation_instances import relations_of
from wardround.tasks.task import (
    Example,
    Task,
    TaskKind,
    TaskScore,
    check_finite,
    label_rows,
)
from wardround.text.document import Document, Entity, Range, Relation
from wardround.text.tag_schemes import ScoredTags

__all__ = ["JOINT", "JointTask", "predict", "score"]

_WORDS_AHEAD = 32_768  # words whose states are held before predictions are returned: bounds memory
_WORDS_PER_DOCUMENT = 64  # added to the words of each document: bounds the number of documents held
_MOST_PAIRS, _MOST_PASSAGES = 4096, 64  # scored at once


class JointTask(Task):
    """Entities and relations from raw text; trained on at most `negatives` pairs without a relation for each with one.

    Its matching modes: `relations` is end to end and requires the positions and types of both entities; `given` scores
    relations among the annotated entities; `entities` is strict.
    """

    matching_modes = ("relations", "given", "entities")

    def __init__(
        self, model: JointExtractor, *, negatives: float | None = None, seed: int = 0, relation_weight: float = 1.0
    ) -> None:
        if not 0.0 <= relation_weight < inf:
            raise TrainingError(f"relation_weight is {relation_weight}; it must be a number, zero or above")
        self.model: JointExtractor = model
        self.negatives, self.seed, self.relation_weight = negatives, seed, relation_weight
        self.alignment_losses: Mapping[str, int] = {}

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Return the types of the model."""
        return self.model.tag_set.types

    def encode(self, documents: Iterable[Document]) -> Sequence[JointExample]:
        """Return passages with their tags and pairs."""
        found = encode(documents, self.model, negatives=self.negatives, seed=self.seed)
        self.alignment_losses = found.counts.by_reason()
        return found.examples

    def public(self, documents: Iterable[Document]) -> Sequence[JointExample]:
        """Return every passage with every pair of annotated entities."""
        found = encode(documents, self.model, every_pair=True)
        self.alignment_losses = found.counts.by_reason()
        return found.examples

    def length(self, example: Example) -> int:
        """Return the number of words."""
        return len(example.words)

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        """Return the mean negative log likelihood of a passage's tags and, weighted, of its pairs."""
        states = _states(self.model, [example.words for example in batch])
        owned = _owned([len(example.tags) for example in batch]).to(states.device)
        rows = [torch.tensor([self.model.tag_rows[tag] for tag in example.tags]) for example in batch]
        tags = pad_sequence(rows, batch_first=True).to(states.device)
        tag_loss = self.model.tag_loss(self.model.emissions(states[:, : tags.shape[1]]), owned, tags)
        labels = _classes(self.model, batch).to(states.device)
        relation_loss = self.model.relation_loss(self.model.relation_scores(states, self._pairs(batch)), labels)
        return (tag_loss + self.relation_weight * relation_loss) / len(batch)

    def predict(self, documents: Iterable[Document], *, scored: bool = False) -> Iterator[Document]:
        """Yield each document with the entities found in its text, and the relations among them."""
        return predict(self.model, documents, scored=scored)

    def score(self, documents: Sequence[Document]) -> TaskScore:
        """Score on the types of the model; a relation that no pair can represent counts as not found."""
        return score(self.model, documents)

    def classes(self) -> Mapping[str, int]:
        """Return the number of tags and of relation classes: one row for each word and one for each pair."""
        return {"tags": len(self.model.tags), "relations": len(self.model.class_rows)}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the tags of the words that passages own, and the classes of their pairs."""
        tags = [self.model.tag_rows[tag] for example in batch for tag in example.tags]
        return {"tags": torch.tensor(tags, dtype=torch.long), "relations": _classes(self.model, batch)}

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the scores of the tags and of the relation classes."""
        states = _states(self.model, [example.words for example in batch])
        owned = _owned([len(example.tags) for example in batch]).to(states.device)
        emissions = self.model.emissions(states[:, : owned.shape[1]])
        return {"tags": emissions[owned], "relations": self.model.relation_scores(states, self._pairs(batch))}

    def _pairs(self, batch: Sequence[JointExample]) -> PairRows:
        pairs = [(text, pair.spans) for text, example in enumerate(batch) for pair in example.pairs]
        return self.model.pair_rows(pairs, [len(example.words) for example in batch]).to(self.model.device)


def predict(
    model: JointExtractor, documents: Iterable[Document], *, batch_size: int = 64, scored: bool = False
) -> Iterator[Document]:
    """Yield each document with the model's entities and relations instead of its own, in order, in constant memory."""
    bare = (document.with_entities(()) for document in documents)
    for encoded in _encoded(model, bare, batch_size, scored=scored):
        yield _with_relations(model, encoded, _with_entities(model, encoded)).document


def score(model: JointExtractor, documents: Sequence[Document], *, batch_size: int = 64) -> TaskScore:
    """Score the model against the documents' annotation of its types, in the three matching modes of the task."""
    relations, given, pairs = list[TypedCounts](), list[TypedCounts](), list[tuple[Document, Document]]()
    dropped = 0
    set_of_mentions = mention_rules(model).relations
    restricted = (restrict_to_model(document, model).document for document in documents)
    expected = (
        set_of_mentions.with_ordered_ends(replace(document, relations=relations_of(document, set_of_mentions)))
        for document in restricted
    )
    for encoded in _encoded(model, expected, batch_size):
        gold = encoded.cut.document
        predicted = _with_relations(model, encoded, _with_entities(model, encoded)).document
        among_gold = _with_relations(model, encoded, gold.with_entities(gold.entities))
        relations.append(strict_counts(gold, predicted))
        given.append(gold_entity_counts(gold, among_gold.document))
        pairs.append((gold, predicted))
        dropped += among_gold.dropped
    entities = score_corpus(pairs)
    counts = (tuple(relations), tuple(given), entities.strict_by_document)
    return TaskScore(dict(zip(JointTask.matching_modes, counts, strict=True)), dropped, entities)


@dataclass(frozen=True)
class _EncodedDocument:
    """A document with the states and the predicted tags of its passages."""

    cut: CutDocument
    states: Sequence[Tensor] = field(repr=False)  # [words, width] each
    tags: Sequence[ScoredTags]  # tags of the owned words of each passage


def _encoded(
    model: JointExtractor, documents: Iterable[Document], batch_size: int, *, scored: bool = False
) -> Iterator[_EncodedDocument]:
    """Encode each document, in order; several at once, so that passages can be sorted by length."""

    def size(cut: CutDocument) -> int:
        return _WORDS_PER_DOCUMENT + sum(len(passage.words) for passage in cut.passages)

    cuts = (cut_passages(document, model.config.window) for document in documents)
    for chunk in in_chunks(cuts, size, _WORDS_AHEAD):
        yield from _encode_chunk(model, chunk, batch_size, scored=scored)


@torch.inference_mode()
def _encode_chunk(
    model: JointExtractor, cuts: Sequence[CutDocument], batch_size: int, *, scored: bool
) -> list[_EncodedDocument]:
    model.eval()
    texts = [cut.texts(passage) for cut in cuts for passage in cut.passages]
    owned = [passage.owned for cut in cuts for passage in cut.passages]
    encoded = [(torch.empty(0), ScoredTags([]))] * len(texts)
    for batch in in_length_order([len(text) for text in texts], batch_size):
        states = _states(model, [texts[index] for index in batch])
        mask = _owned([owned[index] for index in batch]).to(states.device)
        emissions = check_finite(model.emissions(states[:, : mask.shape[1]]))
        for row, (index, tags) in enumerate(zip(batch, model.decode(emissions, mask, scored=scored), strict=True)):
            encoded[index] = states[row, : len(texts[index])].clone(), tags
    passages = iter(encoded)
    documents = []
    for cut in cuts:
        own = list(islice(passages, len(cut.passages)))
        documents.append(_EncodedDocument(cut, [states for states, _ in own], [tags for _, tags in own]))
    return documents


def _with_entities(model: JointExtractor, encoded: _EncodedDocument) -> Document:
    """Return the document with the entities of its predicted tags."""
    entities = list[Entity]()
    for passage, (tags, probabilities) in zip(encoded.cut.passages, encoded.tags, strict=True):
        for (start, end, kind), score in zip(model.scheme.spans(tags), probabilities or repeat(None), strict=False):
            place = Range(passage.words[start].start, passage.words[end - 1].end)
            entities.append(Entity(f"T{len(entities) + 1}", kind, (place,), score=score))
    return encoded.cut.document.with_entities(entities)


@dataclass(frozen=True)
class _RelatedDocument:
    document: Document
    dropped: int  # pairs with a mention outside the words that are read


@torch.inference_mode()
def _with_relations(model: JointExtractor, encoded: _EncodedDocument, document: Document) -> _RelatedDocument:
    """Return the document with the likeliest relations that the types of its entities allow."""
    relations: list[Relation] = []
    dropped = 0
    for batch in _pair_batches(encoded.cut.candidates(document, mention_rules(model))):
        placed = [(pair.head, pair.tail, pair.place) for pair in batch if pair.place is not None]
        dropped += len(batch) - len(placed)
        scores = _pair_scores(model, encoded, [place for _, _, place in placed])
        for (head, tail, _), row in zip(placed, scores, strict=True):
            allowed = {model.relations.negative, *model.relations.allowed(head.type, tail.type)}
            candidates = (pair for pair in zip(row, model.relations.names, strict=True) if pair[1] in allowed)
            highest, name = max(candidates, key=itemgetter(0))
            if name != model.relations.negative:
                top = max(row)
                likely = exp(highest - top) / sum(exp(score - top) for score in row)
                relations.append(Relation(f"R{len(relations) + 1}", name, head.id, tail.id, score=likely))
    return _RelatedDocument(replace(document, relations=tuple(relations)), dropped)


def _pair_batches(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    """Group the pairs that are scored at once, with a bound on their number and on that of their passages."""
    batch, passages = list[Candidate](), set[int]()
    for candidate in candidates:
        batch.append(candidate)
        passages |= {candidate.place.passage} if candidate.place else set()
        if len(batch) == _MOST_PAIRS or len(passages) == _MOST_PASSAGES:
            yield batch
            batch, passages = [], set()
    yield batch


def _pair_scores(model: JointExtractor, encoded: _EncodedDocument, places: Sequence[Place]) -> list[list[float]]:
    """Return the scores of the classes of each pair."""
    if not places:
        return []
    texts = {passage: text for text, passage in enumerate(dict.fromkeys(place.passage for place in places))}
    states = [encoded.states[passage] for passage in texts]
    rows = model.pair_rows([(texts[passage], spans) for passage, spans in places], list(map(len, states)))
    scores = model.relation_scores(pad_sequence(states, batch_first=True), rows.to(model.device))
    values: list[list[float]] = check_finite(scores).tolist()
    return values


def _states(model: JointExtractor, texts: Sequence[Sequence[str]]) -> Tensor:
    return model.states(model.prepare(texts).to(model.device))


def _owned(lengths: Sequence[int]) -> Tensor:
    """Return a mask [batch, words] over the owned words of passages, which come first."""
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


def _classes(model: JointExtractor, batch: Sequence[JointExample]) -> Tensor:
    return label_rows((pair.label for example in batch for pair in example.pairs), model.class_rows)


JOINT = TaskKind(
    name="joint",
    bind=lambda model, settings: JointTask(
        model, negatives=settings.negatives, seed=settings.seed, relation_weight=settings.relation_weight
    ),
    matching_modes=JointTask.matching_modes,
    finds_entities=JointTask.finds_entities,
    finds_relations=JointTask.finds_relations,
    examples="sentences",
)
