"""Training at one site: epochs of mini-batches, early stopping on a development set, exact resume.

Batch order and dropout of an epoch depend on the seed and the epoch's number alone, so a training restored at the end
of any epoch goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import torch
from torch import Tensor

from wardround.errors import TrainingError
from wardround.models.parameter_split import OUTPUT_GROUPS, LayeredModel
from wardround.tasks.batches import length_buckets
from wardround.tasks.task import Example, Task
from wardround.text.document import Document
from wardround.training.randomness import seeded_from
from wardround.training.state_files import load_moments, moments, under
from wardround.training.training_config import TrainingConfig

__all__ = ["EpochRecord", "Listener", "Silence", "TrainingLoop", "TrainingState", "rate_factor"]


class Listener(Protocol):
    """Whoever wants to watch."""

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        """A mini-batch was done."""

    def on_epoch(self, record: EpochRecord) -> None:
        """An epoch was done and scored."""


class Silence:
    """A listener that does not listen."""

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        """Nothing."""

    def on_epoch(self, record: EpochRecord) -> None:
        """Nothing."""


@dataclass(frozen=True)
class EpochRecord:
    """One epoch in figures."""

    epoch: int  # from 1
    loss: float  # mean over the examples
    dev_f1: float  # micro, under the task's main reading
    best: bool  # no epoch before scored higher
    seconds: float


@dataclass(frozen=True)
class TrainingState:
    """All that a training needs to go on: tensors by name, and the records so far."""

    tensors: dict[str, Tensor]
    records: tuple[EpochRecord, ...]


class TrainingLoop:
    """Trains a model in place; at the end the model holds the weights of its best epoch."""

    def __init__(
        self,
        task: Task,
        config: TrainingConfig,
        *,
        train: Sequence[Example],
        dev: Sequence[Document],
    ) -> None:
        self.task, self.config, self.train, self.dev = task, config, train, dev
        self.model = task.model
        self.records: list[EpochRecord] = []
        self._optimizer = _optimizer(self.model, config)
        self._rates = [group["lr"] for group in self._optimizer.param_groups]
        self._best: dict[str, Tensor] = {}
        self._steps_an_epoch = -(-len(train) // config.batch_size)

    def run(self, listener: Listener | None = None) -> Iterator[EpochRecord]:
        """Train epoch by epoch until done, then put the best weights back."""
        listener = listener or Silence()
        while not self._done():
            yield self._epoch(len(self.records) + 1, listener)
        self.model.load_state_dict(self._best)

    def _done(self) -> bool:
        since_best = next((age for age, record in enumerate(reversed(self.records)) if record.best), 0)
        return len(self.records) >= self.config.epochs or since_best >= self.config.patience

    def _epoch(self, number: int, listener: Listener) -> EpochRecord:
        started = perf_counter()
        name = f"{self.config.seed}/epoch-{number}"
        batches = length_buckets(list(map(self.task.length, self.train)), self.config.batch_size, name)
        total = 0.0
        with seeded_from(name, self.model):
            self.model.train()
            for step, batch in enumerate(batches):
                self._set_rate((number - 1) * self._steps_an_epoch + step)
                loss = self.step([self.train[index] for index in batch])
                _check_finite(loss, number)
                total += loss * len(batch)
                listener.on_step(number, step=step + 1, steps=len(batches), loss=loss)
        record = self._score(number, total / len(self.train), started)
        listener.on_epoch(record)
        return record

    def step(self, batch: Sequence[Example]) -> float:
        """One mini-batch: gradient, clip, update; returns the loss before it."""
        self._optimizer.zero_grad(set_to_none=True)
        with self._precision():
            loss = self.task.batch_loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self._optimizer.step()
        return loss.item()

    def _precision(self) -> AbstractContextManager[Any]:
        if self.config.mixed_precision and self.model.device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return nullcontext()

    def _score(self, number: int, loss: float, started: float) -> EpochRecord:
        f1 = self.task.score(self.dev).main.micro.f1
        best = f1 > max((record.dev_f1 for record in self.records), default=-1.0)
        record = EpochRecord(number, loss, f1, best, perf_counter() - started)
        self.records.append(record)
        if best:
            self._best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        return record

    def _set_rate(self, step: int) -> None:
        factor = rate_factor(step, self.config.epochs * self._steps_an_epoch, self.config)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def state(self) -> TrainingState:
        """A snapshot between epochs, which further training does not change."""
        tensors = {f"model/{name}": tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self._best.items()}
        tensors |= {f"optimizer/{name}": tensor.clone() for name, tensor in moments(self._optimizer).items()}
        return TrainingState(tensors, tuple(self.records))

    def restore(self, state: TrainingState) -> None:
        """Go back to a snapshot of a training with the same model, data and settings."""
        try:
            self.model.load_state_dict(under("model", state.tensors))
        except RuntimeError as error:
            raise TrainingError("the checkpoint belongs to another model; start afresh in a new folder") from error
        device = self.model.device
        self._best = {name: tensor.to(device) for name, tensor in under("best", state.tensors).items()}
        # Copies, for the optimizer writes into what it is given.
        remembered = {name: tensor.clone() for name, tensor in under("optimizer", state.tensors).items()}
        load_moments(self._optimizer, remembered)
        self.records = list(state.records)


def rate_factor(step: int, steps: int, config: TrainingConfig) -> float:
    """What the learning rate is multiplied by at `step` of `steps`: warm-up, then constant or down to zero."""
    warm = config.warmup * steps
    if step < warm:
        return (step + 1) / (warm + 1)
    return 1.0 if config.schedule == "constant" else (steps - step) / max(steps - warm, 1)


def _optimizer(model: LayeredModel, config: TrainingConfig) -> torch.optim.Optimizer:
    top = model.parameters_in(OUTPUT_GROUPS)
    rest = [p for name, p in model.named_parameters() if p.requires_grad and name not in top]
    rates = (config.learning_rate, config.output_learning_rate or config.learning_rate)
    groups = [{"params": p, "lr": rate} for p, rate in zip((rest, list(top.values())), rates, strict=True)]
    decay = config.weight_decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, weight_decay=decay)
    if config.optimizer == "adam":
        return torch.optim.Adam(groups, weight_decay=decay, fused=True)
    return torch.optim.AdamW(groups, weight_decay=decay, fused=True)


def _check_finite(loss: float, epoch: int) -> None:
    if not torch.isfinite(torch.tensor(loss)):
        raise TrainingError(f"the loss of epoch {epoch} is not a number; lower learning_rate or set clip")
