"""What every task is: a model bound to what it learns, as trainings, studies and commands use it.

A task turns documents into examples, which only it looks into. Its `readings` name the ways in which it is scored; by
the first of them rounds are compared. Its heads are what a model says of an example in rows of class scores: of a
sentence a row a word, of a pair of entities one row. They are what distillation teaches and what it is taught.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from wardround.text.document import Document

__all__ = ["Example", "Task", "TaskScore", "head_scores", "in_length_order"]

Example: TypeAlias = Any  # of the task that made it


@dataclass(frozen=True)
class TaskScore:
    """Counts of each document under each reading of a task, the main one first."""

    by_document: Mapping[str, tuple[TypedCounts, ...]]
    dropped: int = 0  # candidates that the model could not read and that counted as not found
    entities: CorpusScore | None = None  # where entities are looked for: also MUC categories and confusions
    leakage: LeakageScore | None = None  # where they identify people: what of them would stay readable

    @property
    def counts(self) -> dict[str, TypedCounts]:
        """By reading, over all documents."""
        return {reading: sum(found, TypedCounts()) for reading, found in self.by_document.items()}

    @property
    def main(self) -> TypedCounts:
        """Over all documents, under the reading by which rounds are compared."""
        return sum(next(iter(self.by_document.values())), TypedCounts())

    @property
    def documents(self) -> int:
        """How many were scored."""
        return len(next(iter(self.by_document.values())))

    def interval(self, reading: str = "") -> Interval:
        """Of the micro-F1 under a reading, or the main one, from a bootstrap over documents."""
        return intervals(self._notes(reading), [Measure()])[0]

    def type_intervals(self, reading: str = "") -> dict[str, Interval]:
        """Of the F1 of each type, from the same resamples."""
        notes = self._notes(reading)
        kinds = list(sum(notes, TypedCounts()))
        return dict(zip(kinds, intervals(notes, [Measure(over=kind) for kind in kinds]), strict=True))

    def _notes(self, reading: str) -> tuple[TypedCounts, ...]:
        return self.by_document[reading] if reading else next(iter(self.by_document.values()))


class Task(ABC):
    """A model and what it is trained for."""

    model: LayeredModel
    readings: tuple[str, ...]
    lost: Mapping[str, int]  # what of the annotation the last `encode` could not express, by reason

    @property
    @abstractmethod
    def entity_types(self) -> tuple[str, ...]:
        """What entities of its predictions may be."""

    @abstractmethod
    def encode(self, documents: Iterable[Document]) -> Sequence[Example]:
        """What the model trains on; documents without any are a `TrainingError`."""

    def public(self, documents: Iterable[Document]) -> Sequence[Example]:
        """What sites predict on: of the same documents the same rows for every model of the task."""
        return self.encode(documents)

    @abstractmethod
    def length(self, example: Example) -> int:
        """By which examples are put into batches of like length."""

    @abstractmethod
    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        """Mean loss of the examples."""

    @abstractmethod
    def predict(self, documents: Iterable[Document]) -> Iterable[Document]:
        """Each document with what the model finds in place of what is annotated, in order, in constant memory."""

    @abstractmethod
    def score(self, documents: Sequence[Document]) -> TaskScore:
        """The model against the documents' own annotation."""

    def score_test(self, documents: Sequence[Document]) -> TaskScore:
        """The same against test notes, which may be annotated with more than the training notes are."""
        return self.score(documents)

    @abstractmethod
    def classes(self) -> Mapping[str, int]:
        """By head, how many classes a row of it scores."""

    @abstractmethod
    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """By head, the right class of each row, the examples one after the other; on the CPU."""

    @abstractmethod
    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """By head, the scores of every class in the rows of `labels`, before any softmax; with gradients."""


def in_length_order(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yield batches of all indices, shortest first: for prediction, where the order does not matter."""
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    return (order[start : start + batch_size] for start in range(0, len(order), batch_size))


@torch.inference_mode()
def head_scores(task: Task, examples: Sequence[Example], *, batch_size: int = 64) -> dict[str, Tensor]:
    """The heads of all examples in their order, on the CPU, by the model as it is used: without dropout."""
    task.model.eval()
    parts: dict[str, list[Tensor]] = {head: [torch.empty(0)] * len(examples) for head in task.classes()}
    for batch in in_length_order([task.length(example) for example in examples], batch_size):
        chosen = [examples[index] for index in batch]
        rows = [{head: len(labels) for head, labels in task.labels([example]).items()} for example in chosen]
        for head, scores in task.heads(chosen).items():
            cut = torch.split(scores.float().cpu(), [counted[head] for counted in rows])
            for index, part in zip(batch, cut, strict=True):
                parts[head][index] = part
    found = {head: torch.cat(rows) for head, rows in parts.items()}
    if not all(bool(scores.isfinite().all()) for scores in found.values()):
        raise TrainingError("the model gives scores that are no numbers; its training has diverged, lower the rate")
    return found
