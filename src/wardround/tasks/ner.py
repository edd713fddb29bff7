"""Named entities: documents to tagged sentences, a loss, and predictions back to entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import TrainingError
from wardround.evaluation.entity_scores import CorpusScore, score_corpus
from wardround.models.tagging_model import MentionModel, tag_scoring
from wardround.tasks.mentions import predict_mentions
from wardround.tasks.task import Example, Task, TaskKind, TaskScore
from wardround.text.alignment import AlignmentCounts, align
from wardround.text.document import Document
from wardround.text.tag_schemes import TagScheme
from wardround.text.tag_sets import TagSet

__all__ = ["NER", "Examples", "NerTask", "TaggedSentence", "batch_loss", "encode", "score"]


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and one tag for each."""

    words: tuple[str, ...] = field(repr=False)
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Examples:
    """Training examples, and counts of annotations that tags could not express."""

    sentences: tuple[TaggedSentence, ...]
    counts: AlignmentCounts


def encode(documents: Iterable[Document], tag_set: TagSet, scheme: TagScheme) -> Examples:
    """Return tagged sentences over the types of `tag_set`; entities of other types are outside."""
    sentences: list[TaggedSentence] = []
    counts = AlignmentCounts()
    for document in documents:
        aligned = align(tag_set.restrict(document))
        counts += aligned.counts
        for sentence in aligned.sentences:
            tags = scheme.encode(sentence.spans, len(sentence.words))
            sentences.append(TaggedSentence(tuple(aligned.texts(sentence)), tuple(tags)))
    if not sentences:
        raise TrainingError("the documents contain no sentence to train on")
    return Examples(tuple(sentences), counts)


def batch_loss(model: MentionModel, batch: Sequence[TaggedSentence]) -> Tensor:
    """Return the mean loss of the sentences."""
    inputs = model.prepare([sentence.words for sentence in batch]).to(model.device)
    rows = [torch.tensor([model.tag_rows[tag] for tag in sentence.tags]) for sentence in batch]
    return model.loss(inputs, pad_sequence(rows, batch_first=True).to(model.device))


def score(
    model: MentionModel, documents: Sequence[Document], *, types: TagSet | None = None, batch_size: int = 64
) -> CorpusScore:
    """Score the model against the documents' annotation of `types`, by default all types of the model."""
    scored_types = types or model.tag_set
    predicted = map(scored_types.restrict, predict_mentions(model, documents, batch_size=batch_size))
    return score_corpus(zip(map(scored_types.restrict, documents), predicted, strict=True))


class NerTask(Task):
    """Named entities of the types that a site annotates; a model shared by all sites may know more types.

    `scored` are the types that the site's test notes are annotated with.
    """

    matching_modes: tuple[str, ...] = ("strict", "relaxed")
    finds_relations = False

    def __init__(self, model: MentionModel, types: TagSet | None = None, scored: TagSet | None = None) -> None:
        self.model: MentionModel = model
        self.types = types or model.tag_set
        self.scored = scored or self.types
        self.alignment_losses: Mapping[str, int] = {}

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Return the types of the model."""
        return self.model.tag_set.types

    def encode(self, documents: Iterable[Document]) -> Sequence[TaggedSentence]:
        """Return tagged sentences over the types of this site."""
        return self._encoded(self.types.restrict(document) for document in documents)

    def public(self, documents: Iterable[Document]) -> Sequence[TaggedSentence]:
        """Return tagged sentences over all types of the model: a public set is annotated for all sites."""
        return self._encoded(documents)

    def _encoded(self, documents: Iterable[Document]) -> Sequence[TaggedSentence]:
        examples = encode(documents, self.model.tag_set, self.model.scheme)
        words_read = self.model.words_read([sentence.words for sentence in examples.sentences])
        unread = sum(  # mentions of which the model does not read every word
            span.end > end
            for sentence, end in zip(examples.sentences, words_read, strict=True)
            if end < len(sentence.words)
            for span in self.model.scheme.spans(sentence.tags)
        )
        self.alignment_losses = asdict(examples.counts) | ({"unread": unread} if unread else {})
        return examples.sentences

    def length(self, example: Example) -> int:
        """Return the number of words."""
        return len(example.words)

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        """Return the mean loss of the sentences."""
        return batch_loss(self.model, batch)

    def predict(self, documents: Iterable[Document], *, scored: bool = False) -> Iterator[Document]:
        """Yield each document with the model's entities."""
        return predict_mentions(self.model, documents, scored=scored)

    def score(self, documents: Sequence[Document]) -> TaskScore:
        """Score on the types of this site."""
        return self.score_types(documents, self.types)

    def score_test(self, documents: Sequence[Document]) -> TaskScore:
        """Score on all types that the test notes are annotated with."""
        return self.score_types(documents, self.scored)

    def score_types(self, documents: Sequence[Document], types: TagSet) -> TaskScore:
        """Score on these types."""
        found = score(self.model, documents, types=types)
        by_document = {"strict": found.strict_by_document, "relaxed": found.relaxed_by_document}
        return TaskScore(by_document, entities=found)

    def classes(self) -> Mapping[str, int]:
        """Return the number of tags: one row for each word."""
        return {"tags": len(self.model.tags)}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the tags of all words."""
        return {"tags": torch.tensor([self.model.tag_rows[tag] for example in batch for tag in example.tags])}

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the score of every tag of all words; raise `ModelError` if the model does not score tags."""
        model = tag_scoring(self.model)
        inputs = model.prepare([example.words for example in batch]).to(model.device)
        return {"tags": model.emissions(inputs).float()[inputs.mask]}


NER = TaskKind(
    name="ner",
    bind=lambda model, settings: NerTask(model, settings.types, settings.scored),
    matching_modes=NerTask.matching_modes,
    finds_entities=NerTask.finds_entities,
    finds_relations=NerTask.finds_relations,
    examples="sentences",
)
