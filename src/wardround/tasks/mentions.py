"""From documents to a tagger's mentions: sentences, batches of similar length, tags, entities.

Nothing here imports torch, so that an ONNX model predicts without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wardround.tasks.batching import in_chunks, in_length_order
from wardround.text.alignment import Alignment, align, entities_from_spans
from wardround.text.document import Document, Entity
from wardround.text.tag_schemes import ScoredTags, TagScheme
from wardround.text.tag_sets import TagSet

__all__ = ["Predictor", "Tagger", "WordTagger", "predict_mentions"]

_SENTENCES_AHEAD = 1024  # sentences read before predictions are returned: bounds memory, and lengths can be sorted


class Tagger(Protocol):
    """What tags sentences: a network in PyTorch, or one in ONNX."""

    @property
    def scheme(self) -> TagScheme:
        """Return the scheme of the tags."""

    def tag_sentences(self, sentences: Sequence[Sequence[str]], *, scored: bool) -> Iterable[ScoredTags]:
        """Return the best legal tags of each sentence; if `scored`, with the probabilities of their mentions."""


class WordTagger(Tagger, Protocol):
    """A tagger that also gives the probability of every tag of every word."""

    @property
    def tag_set(self) -> TagSet:
        """Return the types of mentions."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags, outside first."""

    def tag_probabilities(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return p(tag) of each word, [batch, words, tags]; zero at padding."""


class Predictor(Protocol):
    """What predictions need of a task."""

    @property
    def model(self) -> Any:
        """Return the network; `kind` names its family."""

    @property
    def finds_entities(self) -> bool:
        """Return whether it predicts entities."""

    @property
    def finds_relations(self) -> bool:
        """Return whether it predicts relations."""

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Return the types that predicted entities can have."""

    def predict(self, documents: Iterable[Document], *, scored: bool = False) -> Iterable[Document]:
        """Yield each document with predictions instead of its annotation, in order, in constant memory."""


def predict_mentions(
    tagger: Tagger, documents: Iterable[Document], *, batch_size: int = 64, scored: bool = False
) -> Iterator[Document]:
    """Yield each document with the tagger's entities instead of its own, in order, in constant memory."""
    aligned = (align(document.with_entities(())) for document in documents)
    # The document itself counts too, because it may be empty.
    for chunk in in_chunks(aligned, lambda alignment: 1 + len(alignment.sentences), _SENTENCES_AHEAD):
        yield from _predict_chunk(tagger, chunk, batch_size, scored=scored)


def _predict_chunk(tagger: Tagger, aligned: Sequence[Alignment], batch_size: int, *, scored: bool) -> list[Document]:
    words = [document.texts(sentence) for document in aligned for sentence in document.sentences]
    decoded = [ScoredTags([])] * len(words)
    for batch in in_length_order([len(sentence) for sentence in words], batch_size):
        found = tagger.tag_sentences([words[index] for index in batch], scored=scored)
        for index, tagged in zip(batch, found, strict=True):
            decoded[index] = tagged
    remaining = iter(decoded)
    documents = []
    for document in aligned:
        entities = list[Entity]()
        for sentence, (tags, probabilities) in zip(document.sentences, remaining, strict=False):
            mentions = entities_from_spans(sentence, tagger.scheme.spans(tags))
            for (kind, place), score in zip(mentions, probabilities or repeat(None), strict=False):
                entities.append(Entity(f"T{len(entities) + 1}", kind, (place,), score=score))
        documents.append(document.document.with_entities(entities))
    return documents
