"""The base class of tasks: a model together with what it learns, as trainings, studies and commands use it.

A task turns documents into examples, which only the task itself reads. Its matching modes are the ways in which it is
scored; rounds are compared by the first. Its heads are rows of class scores: one row for each word of a sentence, one
for each pair of entities. Distillation teaches and learns these rows.

The file of a task ends with a `TaskKind`; one line of `task_table` makes it known to studies and commands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from wardround.errors import TrainingError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.entity_scores import CorpusScore
from wardround.evaluation.leakage import LeakageScore
from wardround.evaluation.significance import Interval, Measure, intervals
from wardround.models.parameter_split import LayeredModel
from wardround.tasks.batching import in_length_order
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = [
    "Example",
    "Task",
    "TaskKind",
    "TaskScore",
    "TaskSettings",
    "check_finite",
    "head_scores",
    "label_rows",
]

Example: TypeAlias = Any  # only the task that made it reads it


@dataclass(frozen=True)
class TaskScore:
    """Counts of each document under each matching mode of a task, the main one first."""

    by_document: Mapping[str, tuple[TypedCounts, ...]]
    dropped: int = 0  # candidates that the model could not read, counted as not found
    entities: CorpusScore | None = None  # for tasks that find entities: also MUC categories and confusions
    leakage: LeakageScore | None = None  # if entities identify people: what would stay readable

    @property
    def counts(self) -> dict[str, TypedCounts]:
        """Return the counts over all documents, by matching mode."""
        return {mode: sum(found, TypedCounts()) for mode, found in self.by_document.items()}

    @property
    def main(self) -> TypedCounts:
        """Return the counts over all documents under the main matching mode, which compares rounds."""
        return sum(next(iter(self.by_document.values())), TypedCounts())

    @property
    def documents(self) -> int:
        """Return how many documents were scored."""
        return len(next(iter(self.by_document.values())))

    def interval(self, mode: str = "") -> Interval:
        """Return the interval of the micro-F1 under a matching mode, or the main one, by a bootstrap over documents."""
        return intervals(self._notes(mode), [Measure()])[0]

    def type_intervals(self, mode: str = "") -> dict[str, Interval]:
        """Return the interval of the F1 of each type, from the same resamples."""
        notes = self._notes(mode)
        kinds = list(sum(notes, TypedCounts()))
        return dict(zip(kinds, intervals(notes, [Measure(over=kind) for kind in kinds]), strict=True))

    def _notes(self, mode: str) -> tuple[TypedCounts, ...]:
        return self.by_document[mode] if mode else next(iter(self.by_document.values()))


class Task(ABC):
    """A model and what it is trained for."""

    model: LayeredModel
    matching_modes: tuple[str, ...]
    finds_entities: bool = True  # it predicts entities
    finds_relations: bool = True  # it predicts relations
    alignment_losses: Mapping[str, int]  # annotations that the last `encode` could not express, by reason

    @property
    @abstractmethod
    def entity_types(self) -> tuple[str, ...]:
        """Return the types that predicted entities can have."""

    @abstractmethod
    def encode(self, documents: Iterable[Document]) -> Sequence[Example]:
        """Return training examples; raise `TrainingError` if the documents contain none."""

    def public(self, documents: Iterable[Document]) -> Sequence[Example]:
        """Return the examples of a public set: for every model of the task the same rows from the same documents."""
        return self.encode(documents)

    @abstractmethod
    def length(self, example: Example) -> int:
        """Return the length that examples are sorted by before they are put into batches."""

    def tokens(self, example: Example) -> int:
        """Return how many words an example has."""
        return self.length(example)

    @abstractmethod
    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        """Return the mean loss of the examples."""

    @abstractmethod
    def predict(self, documents: Iterable[Document], *, scored: bool = False) -> Iterable[Document]:
        """Yield each document with predictions instead of its annotation, in order, in constant memory.

        If `scored`, each prediction has the probability that the model gives it, if it has one.
        """

    @abstractmethod
    def score(self, documents: Sequence[Document]) -> TaskScore:
        """Score the model against the annotation of the documents."""

    def score_test(self, documents: Sequence[Document]) -> TaskScore:
        """Score against test notes, which may be annotated with more types than the training notes."""
        return self.score(documents)

    @abstractmethod
    def classes(self) -> Mapping[str, int]:
        """Return the number of classes of each head."""

    @abstractmethod
    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the right class of each row of each head, for all examples in order, on the CPU."""

    @abstractmethod
    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return the scores of every class in the rows of `labels`, by head, before any softmax, with gradients."""


@dataclass(frozen=True)
class TaskSettings:
    """Settings of tasks; each task uses some of them."""

    types: TagSet | None = None  # entity types that a site annotates; by default those of the model
    scored: TagSet | None = None  # entity types that its test notes are annotated with; by default the same
    negatives: float | None = None  # in training, pairs without a relation for each with one; None is all
    relation_weight: float = 1.0  # weight of the loss of relations beside that of entities
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class TaskKind:
    """The declaration of a task: what it needs, and how a model is bound to it."""

    name: str
    bind: Callable[[Any, TaskSettings], Task]  # return the task with a model of a family that serves it
    matching_modes: tuple[str, ...]  # the main one first
    finds_entities: bool  # it learns types of entities
    finds_relations: bool  # it learns types of relations
    examples: str  # what its training examples are called
    reports_leakage: bool = False  # its scores say how much identifying text would stay readable
    variant_of: str = ""  # a task with the same models and examples; algorithms for that one serve this one too

    @property
    def only_tags_words(self) -> bool:
        """Return whether it tags words and nothing else, so that each site may have its own types."""
        return self.finds_entities and not self.finds_relations


def label_rows(labels: Iterable[str], rows: Mapping[str, int]) -> Tensor:
    """Return the rows of some classes of a model; raise `TrainingError` for a label that is not one of them."""
    labels = tuple(labels)
    unknown = sorted(set(labels) - rows.keys())
    if unknown:
        raise TrainingError(f"no class of the model is called {unknown[0]!r}; it has {', '.join(rows)}")
    return torch.tensor([rows[label] for label in labels], dtype=torch.long)


def check_finite(scores: Tensor) -> Tensor:
    """Return the scores; raise `TrainingError` if one of them is not a finite number."""
    if not scores.isfinite().all():
        raise TrainingError("the model's scores are not finite; its training has diverged, lower the learning rate")
    return scores


@torch.inference_mode()
def head_scores(task: Task, examples: Sequence[Example], *, batch_size: int = 64) -> dict[str, Tensor]:
    """Return the heads of all examples in order, on the CPU, without dropout."""
    task.model.eval()
    parts: dict[str, list[Tensor]] = {head: [torch.empty(0)] * len(examples) for head in task.classes()}
    for batch in in_length_order([task.length(example) for example in examples], batch_size):
        chosen = [examples[index] for index in batch]
        rows = [{head: len(labels) for head, labels in task.labels([example]).items()} for example in chosen]
        for head, scores in task.heads(chosen).items():
            cut = torch.split(scores.float().cpu(), [counted[head] for counted in rows])
            for index, part in zip(batch, cut, strict=True):
                parts[head][index] = part
    return {head: check_finite(torch.cat(rows)) for head, rows in parts.items()}
