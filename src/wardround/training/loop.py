"""The one training loop: mini-batch steps for every training, and epochs with early stopping for one site.

`train_batches` runs the mini-batches of any training: at one site, inside the rounds of a study, on a public set.
`TrainingLoop` adds epochs, scoring, early stopping and checkpoints. The batch order and the dropout of an epoch depend
only on the seed and the number of the epoch, so a training that is restored at the end of any epoch continues bit for
bit as if it had never stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from wardround.errors import MessageError, TrainingError
from wardround.models.parameter_split import LayeredModel
from wardround.parsing import parse_json
from wardround.tasks.task import Example, Task
from wardround.text.document import Document
from wardround.training.batches import length_buckets
from wardround.training.optimizer import ParameterOptimizer, check_finite, clip_gradients
from wardround.training.randomness import seeded_from
from wardround.training.state_files import save_tensors, tensors_under
from wardround.training.training_config import Rates, TrainingConfig

__all__ = [
    "EpochRecord",
    "Listener",
    "SilentListener",
    "TrainingLoop",
    "TrainingState",
    "compute_gradients",
    "load_checkpoint",
    "save_checkpoint",
    "train_batches",
]


def compute_gradients(model: LayeredModel, loss: Callable[[], Tensor], *, mixed_precision: bool = False) -> float:
    """Replace the gradients of the model by those of `loss()`, computed in training mode; return the loss.

    A loss that no parameter contributed to leaves all gradients unset.
    """
    model.train()
    model.zero_grad(set_to_none=True)
    on_gpu = model.device.type == "cuda"
    with torch.autocast("cuda", dtype=torch.bfloat16) if mixed_precision and on_gpu else nullcontext():
        value = loss()
    number = check_finite(value)
    if value.requires_grad:
        value.backward()  # type: ignore[no-untyped-call]
    return number


def train_batches(
    model: LayeredModel,
    batches: Iterable[Sequence[int]],
    loss: Callable[[Sequence[int]], Tensor],
    *,
    optimizers: Sequence[ParameterOptimizer],
    rates: Callable[[int], Rates],
    clip: float,
    adjust_gradients: Callable[[], None] | None = None,
    mixed_precision: bool = False,
) -> Iterator[float]:
    """Train a model in place on mini-batches of example numbers; yield the loss of each.

    `rates` takes the number of the step, counted from 0. `adjust_gradients` may change the gradients before they are
    clipped. Raise `MessageError` if a loss or a gradient is not finite; the model is then left half-trained.
    """
    parameters = [tensor for optimizer in optimizers for tensor in optimizer.parameters.values()]
    for step, batch in enumerate(batches):
        value = compute_gradients(model, partial(loss, batch), mixed_precision=mixed_precision)
        if any(parameter.grad is not None for parameter in parameters):
            if adjust_gradients is not None:
                adjust_gradients()
            clip_gradients(parameters, clip)
            for optimizer in optimizers:
                optimizer.step(rates(step))
        yield value


class Listener(Protocol):
    """Receives the progress of a training."""

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        """Receive the loss of one mini-batch."""

    def on_epoch(self, record: EpochRecord) -> None:
        """Receive the record of one epoch."""


class SilentListener:
    """A listener that ignores everything."""

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        """Do nothing."""

    def on_epoch(self, record: EpochRecord) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class EpochRecord:
    """The results of one epoch."""

    epoch: int  # from 1
    loss: float  # mean over the examples
    dev_f1: float  # micro, under the task's main matching mode
    best: bool  # True if no earlier epoch scored higher
    seconds: float


@dataclass(frozen=True)
class TrainingState:
    """Everything that a training needs to continue: tensors by name, and the records so far."""

    tensors: dict[str, Tensor]
    records: tuple[EpochRecord, ...]


class TrainingLoop:
    """Train a model in place at one site; at the end the model holds the weights of its best epoch."""

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
        parameters = {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}
        self._optimizer = ParameterOptimizer(parameters, self.model.output_names(parameters), kind=config.optimizer)
        self._best: dict[str, Tensor] = {}

    def run(self, listener: Listener | None = None) -> Iterator[EpochRecord]:
        """Train epoch by epoch until the last one or until early stopping, then restore the best weights."""
        listener = listener or SilentListener()
        while len(self.records) < self.config.epochs:
            since_best = next((age for age, record in enumerate(reversed(self.records)) if record.best), 0)
            if since_best >= self.config.patience:
                break
            yield self._train_epoch(len(self.records) + 1, listener)
        self.model.load_state_dict(self._best)

    def _train_epoch(self, number: int, listener: Listener) -> EpochRecord:
        started = perf_counter()
        name = f"{self.config.seed}/epoch-{number}"
        batches = length_buckets(list(map(self.task.length, self.train)), self.config.batch_size, name)
        steps = len(batches)
        losses = train_batches(
            self.model,
            batches,
            lambda rows: self.task.batch_loss([self.train[row] for row in rows]),
            optimizers=(self._optimizer,),
            rates=lambda step: self.config.rates((number - 1) * steps + step, self.config.epochs * steps),
            clip=self.config.clip,
            mixed_precision=self.config.mixed_precision,
        )
        total = 0.0
        with seeded_from(name, self.model):
            try:
                for step, (batch, loss) in enumerate(zip(batches, losses, strict=True), start=1):
                    total += loss * len(batch)
                    listener.on_step(number, step=step, steps=steps, loss=loss)
            except MessageError as error:
                raise TrainingError(
                    f"the loss of epoch {number} is not a number; lower learning_rate or set clip"
                ) from error
        f1 = self.task.score(self.dev).main.micro.f1
        best = f1 > max((record.dev_f1 for record in self.records), default=-1.0)
        record = EpochRecord(number, total / len(self.train), f1, best, perf_counter() - started)
        self.records.append(record)
        if best:
            self._best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        listener.on_epoch(record)
        return record

    def state(self) -> TrainingState:
        """Return a snapshot between two epochs; further training does not change it."""
        tensors = {f"model/{name}": tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self._best.items()}
        tensors |= {f"optimizer/{name}": tensor.clone() for name, tensor in self._optimizer.state().items()}
        return TrainingState(tensors, tuple(self.records))

    def restore(self, state: TrainingState) -> None:
        """Restore a snapshot of a training with the same model, data and settings."""
        try:
            self.model.load_state_dict(tensors_under("model", state.tensors))
        except RuntimeError as error:
            raise TrainingError("the checkpoint belongs to another model; start afresh in a new folder") from error
        device = self.model.device
        self._best = {name: tensor.to(device) for name, tensor in tensors_under("best", state.tensors).items()}
        # Copies, because the optimizer writes into the tensors that it loads.
        state_tensors = tensors_under("optimizer", state.tensors)
        self._optimizer.load({name: tensor.clone() for name, tensor in state_tensors.items()})
        self.records = list(state.records)


def save_checkpoint(path: Path, state: TrainingState, *, settings: str) -> None:
    """Replace the checkpoint atomically; `settings` is a digest of the training, checked when it resumes."""
    records = json.dumps([asdict(record) for record in state.records])
    save_tensors(path, state.tensors, metadata={"settings": settings, "records": records})


def load_checkpoint(path: Path, *, settings: str) -> TrainingState:
    """Read a checkpoint; raise a TrainingError if it belongs to another training."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        records = tuple(EpochRecord(**record) for record in parse_json(metadata["records"], finite=False))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{path.name} is not a checkpoint, or is damaged; remove it to start again") from error
    if metadata.get("settings") != settings:
        raise TrainingError(
            "the run folder holds a training with other settings or data; name another folder, or remove this one"
        )
    return TrainingState(tensors, records)
