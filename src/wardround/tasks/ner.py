"""Named entities: documents to tagged sentences, a loss, and predictions back as entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import TrainingError
from wardround.evaluation.entity_scores import CorpusScore, score_corpus
from wardround.models.tagging_model import TaggingModel
from wardround.tasks.task import Example, Task, TaskScore, in_length_order
from wardround.text.alignment import Alignment, AlignmentCounts, align, entities_from_spans
from wardround.text.document import Document, Entity
from wardround.text.tag_schemes import TagScheme
from wardround.text.tag_sets import TagSet

__all__ = ["Examples", "NerTask", "TaggedSentence", "batch_loss", "encode", "predict", "score"]

_SENTENCES_AHEAD = 1024  # sentences read before a prediction is given back: bounds memory, lets lengths be sorted


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag each."""

    words: tuple[str, ...] = field(repr=False)
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Examples:
    """What a tagger trains on, and what of the annotation it could not express."""

    sentences: tuple[TaggedSentence, ...]
    counts: AlignmentCounts


def encode(documents: Iterable[Document], tag_set: TagSet, scheme: TagScheme) -> Examples:
    """Tagged sentences over the types of `tag_set`; entities of other types are outside."""
    sentences: list[TaggedSentence] = []
    counts = AlignmentCounts()
    for document in documents:
        aligned = align(tag_set.restrict(document))
        counts += aligned.counts
        for sentence in aligned.sentences:
            tags = scheme.encode(sentence.spans, len(sentence.words))
            sentences.append(TaggedSentence(tuple(aligned.texts(sentence)), tuple(tags)))
    if not sentences:
        raise TrainingError("the documents hold no sentence to train on")
    return Examples(tuple(sentences), counts)


def batch_loss(model: TaggingModel, batch: Sequence[TaggedSentence]) -> Tensor:
    """Mean loss of the sentences."""
    inputs = model.prepare([sentence.words for sentence in batch]).to(model.device)
    rows = [torch.tensor([model.tag_rows[tag] for tag in sentence.tags]) for sentence in batch]
    return model.loss(inputs, pad_sequence(rows, batch_first=True).to(model.device))


def predict(model: TaggingModel, documents: Iterable[Document], *, batch_size: int = 64) -> Iterator[Document]:
    """Each document with the model's entities in place of its own, in order, in constant memory."""
    waiting: list[Alignment] = []
    held = 0
    for document in documents:
        waiting.append(align(document.with_entities(())))
        held += 1 + len(waiting[-1].sentences)  # the document itself counts: it may be empty
        if held >= _SENTENCES_AHEAD:
            yield from _predict_chunk(model, waiting, batch_size)
            waiting, held = [], 0
    yield from _predict_chunk(model, waiting, batch_size)


def score(
    model: TaggingModel, documents: Sequence[Document], *, types: TagSet | None = None, batch_size: int = 64
) -> CorpusScore:
    """The model against the documents' own annotation of its types, or of `types` where it knows more of them."""
    wanted = types or model.tag_set
    predicted = map(wanted.restrict, predict(model, documents, batch_size=batch_size))
    return score_corpus(zip(map(wanted.restrict, documents), predicted, strict=True))


class NerTask(Task):
    """Named entities of the types that a site annotates; a model that is shared whole may know more of them.

    `scored` are the types that the site's test notes are annotated with: what it trains on says nothing of the others.
    """

    readings: tuple[str, ...] = ("strict", "relaxed")

    def __init__(self, model: TaggingModel, types: TagSet | None = None, scored: TagSet | None = None) -> None:
        self.model: TaggingModel = model
        self.types = types or model.tag_set
        self.scored = scored or self.types
        self.lost: Mapping[str, int] = {}

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Those of the model."""
        return self.model.tag_set.types

    def encode(self, documents: Iterable[Document]) -> Sequence[TaggedSentence]:
        """Tagged sentences over the types of this site."""
        return self._encoded(self.types.restrict(document) for document in documents)

    def public(self, documents: Iterable[Document]) -> Sequence[TaggedSentence]:
        """Tagged sentences over the types of the model: what everybody may read is annotated for all sites."""
        return self._encoded(documents)

    def _encoded(self, documents: Iterable[Document]) -> Sequence[TaggedSentence]:
        found = encode(documents, self.model.tag_set, self.model.scheme)
        unread = self._unread(found.sentences)
        self.lost = asdict(found.counts) | ({"unread": unread} if unread else {})
        return found.sentences

    def _unread(self, sentences: Sequence[TaggedSentence]) -> int:
        """Mentions that lie, whole or in part, where the model does not read."""
        read = self.model.words_read([sentence.words for sentence in sentences])
        return sum(
            span.end > end
            for sentence, end in zip(sentences, read, strict=True)
            if end < len(sentence.words)
            for span in self.model.scheme.spans(sentence.tags)
        )

    def length(self, example: Example) -> int:
        """In words."""
        return len(example.words)

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        """Mean loss of the sentences."""
        return batch_loss(self.model, batch)

    def predict(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Each document with the model's entities."""
        return predict(self.model, documents)

    def score(self, documents: Sequence[Document]) -> TaskScore:
        """Strict and relaxed, on the types of this site."""
        return self._score(documents, self.types)

    def score_test(self, documents: Sequence[Document]) -> TaskScore:
        """The same on all types that test notes are annotated with."""
        return self._score(documents, self.scored)

    def _score(self, documents: Sequence[Document], types: TagSet) -> TaskScore:
        found = score(self.model, documents, types=types)
        by_document = {"strict": found.strict_by_document, "relaxed": found.relaxed_by_document}
        return TaskScore(by_document, entities=found)

    def classes(self) -> Mapping[str, int]:
        """A row a word."""
        return {"tags": len(self.model.tags)}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """The tags."""
        return {"tags": torch.tensor([self.model.tag_rows[tag] for example in batch for tag in example.tags])}

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """The emissions."""
        inputs = self.model.prepare([example.words for example in batch]).to(self.model.device)
        return {"tags": self.model.emissions(inputs).float()[inputs.mask]}


@torch.inference_mode()
def _predict_chunk(model: TaggingModel, aligned: Sequence[Alignment], batch_size: int) -> list[Document]:
    model.eval()
    words = [document.texts(sentence) for document in aligned for sentence in document.sentences]
    tags: list[list[str]] = [[] for _ in words]
    for batch in in_length_order([len(sentence) for sentence in words], batch_size):
        inputs = model.prepare([words[index] for index in batch]).to(model.device)
        for index, decoded in zip(batch, model.decode(inputs), strict=True):
            tags[index] = decoded
    remaining = iter(tags)
    return [_with_predictions(document, remaining, model.scheme) for document in aligned]


def _with_predictions(aligned: Alignment, tags: Iterator[list[str]], scheme: TagScheme) -> Document:
    found = [
        mention for sentence in aligned.sentences for mention in entities_from_spans(sentence, scheme.spans(next(tags)))
    ]
    return aligned.document.with_entities(
        Entity(f"T{number}", kind, (range_,)) for number, (kind, range_) in enumerate(found, start=1)
    )
