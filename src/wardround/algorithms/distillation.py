"""Distillation: what some models say of a public set teaches another one (FedED, Section 3.3.2).

A model gives its scores of every class in the rows of the public set, as probabilities or as logits. Their mean
(Eq. 5) is softened into the teacher q (Eq. 4); the student learns the labels and the teacher at once (Eq. 6).
Eq. 5 averages what it writes as p and calls a logit: here either can be averaged, each softened as what it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import kl_div

from wardround.errors import TrainingError
from wardround.evaluation.counts import SpanCounts
from wardround.tasks.task import Example, Task
from wardround.training.batches import length_buckets
from wardround.training.loop import train_batches
from wardround.training.optimizer import ParameterOptimizer
from wardround.training.randomness import seeded_from
from wardround.training.training_config import Rates

__all__ = [
    "Agreement",
    "DistillationConfig",
    "Exchanged",
    "as_shared",
    "distil",
    "distillation_loss",
    "figures",
    "teacher",
]

Exchanged = Literal["probabilities", "logits"]


# What is given, and what becomes of its mean.


def as_shared(scores: Tensor, exchange: Exchanged) -> npt.NDArray[np.float32]:
    """What a model gives of its scores, [rows, classes]: probabilities, or the scores themselves."""
    _check_exchanged(exchange)
    rows = scores.detach().float().cpu()
    given: npt.NDArray[np.float32] = (rows.softmax(-1) if exchange == "probabilities" else rows.clone()).numpy()
    return given


def teacher(mean: npt.NDArray[Any], exchange: Exchanged, temperature: float) -> Tensor:
    """The softened distribution q of each row of a mean (Eq. 4), [rows, classes], float32 on the CPU.

    Of logits z it is softmax(z/τ); of probabilities p, the logarithms of which are logits, p^(1/τ) over its sum.
    """
    _check_exchanged(exchange)
    logits = torch.from_numpy(np.array(mean, np.float64))
    if exchange == "probabilities":
        # Under masks and seals, rounding may leave a zero just below zero. Of a zero, −∞ is made a zero again.
        logits = logits.clamp(min=0.0).log()
    softened = (logits / temperature).softmax(-1).float()
    if not bool(softened.isfinite().all()):
        raise TrainingError("a row of the mean prediction is no distribution: it is all zero, or holds no numbers")
    return softened


def _check_exchanged(exchange: str) -> None:
    if exchange not in get_args(Exchanged):
        raise TrainingError(f"exchange is {exchange!r}; it can be {' or '.join(get_args(Exchanged))}")


# How a student learns.


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """How a student learns from its teacher and from labels; without labels, theirs is a weight of 0."""

    batch_size: int
    epochs: int = 1
    temperature: float = 1.0  # τ, Eq. 4
    label_weight: float = 1.0  # of the first term of Eq. 6
    teacher_weight: float = 1.0  # of the second
    labelled: bool = True  # whether the labels of the public set are to be believed

    def __post_init__(self) -> None:
        if not self.labelled:
            object.__setattr__(self, "label_weight", 0.0)
        for name in ("batch_size", "epochs", "temperature"):
            if not 0 < getattr(self, name) < math.inf:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be above zero")
        for name in ("label_weight", "teacher_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be zero or above")
        if not self.label_weight and not self.teacher_weight:
            raise TrainingError(
                "teacher_weight is 0 and so is label_weight, or the public set has no labels; nothing would be learned"
            )


def distillation_loss(
    heads: Mapping[str, Tensor],
    teacher: Mapping[str, Tensor],
    labels: Mapping[str, Tensor] | None,
    config: DistillationConfig,
) -> Tensor:
    """Eq. 6: in the mean over the rows of a head, its cross-entropy and D(q‖p), weighted; summed over the heads.

    p is the student's distribution, which τ does not soften. A head without rows counts 0. No teacher: labels alone.
    """
    taught, told = teacher if config.teacher_weight else {}, labels if config.label_weight else None
    if not taught and told is None:
        raise TrainingError("there is neither a teacher nor a label of any weight; nothing would be learned")
    losses = [
        _head_loss(scores, taught[head] if taught else None, None if told is None else told[head], config)
        for head, scores in heads.items()
    ]
    return torch.stack(losses).sum()


def _head_loss(scores: Tensor, teacher: Tensor | None, labels: Tensor | None, config: DistillationConfig) -> Tensor:
    if not len(scores):
        return scores.sum()  # zero, and still something to go back from
    log_p = scores.log_softmax(-1)
    loss = log_p.new_zeros(())
    if labels is not None:
        loss = loss - config.label_weight * log_p.gather(1, labels[:, None]).mean()
    if teacher is not None:
        loss = loss + config.teacher_weight * kl_div(log_p, teacher, reduction="batchmean")
    return loss


def distil(
    task: Task,
    examples: Sequence[Example],
    teacher: Mapping[str, Tensor] | None,
    *,
    config: DistillationConfig,
    rates: Rates,
    clip: float,
    seed: str,
) -> float:
    """Train the task's model in place on public examples; returns the mean loss over examples and epochs.

    `teacher` has, by head, a row for each row of the examples, in their order; without one, labels teach alone.
    Batches and dropout depend on the seed, and on nothing that was done before. A loss or gradient that is not finite
    is refused half-way: the caller puts the model back.
    """
    lesson = _lesson(task, examples, teacher or {})
    parameters = {name: tensor for name, tensor in task.model.named_parameters() if tensor.requires_grad}
    lengths = [task.length(example) for example in examples]
    batches = [
        batch
        for epoch in range(1, config.epochs + 1)
        for batch in length_buckets(lengths, config.batch_size, f"{seed}/epoch-{epoch}")
    ]

    def loss_of(batch: Sequence[int]) -> Tensor:
        targets, labels = lesson.of(batch, task.model.device)
        heads = task.heads([examples[index] for index in batch])
        return distillation_loss(heads, targets, labels if config.labelled else None, config)

    losses = train_batches(
        task.model,
        batches,
        loss_of,
        optimizers=(ParameterOptimizer(parameters, task.model.output_names(parameters)),),
        rates=lambda step: rates,
        clip=clip,
    )
    with seeded_from(seed, task.model):
        total = sum(loss * len(batch) for batch, loss in zip(batches, losses, strict=True))
    task.model.zero_grad(set_to_none=True)  # as large as the model, and of no more use
    return total / (config.epochs * len(examples))


@dataclass(frozen=True)
class _Lesson:
    """By head, what every row of the examples is taught, and which rows are whose."""

    rows: Mapping[str, Sequence[range]]  # of each example
    labels: Mapping[str, Tensor]  # [rows]
    teacher: Mapping[str, Tensor]  # [rows, classes]; empty without one

    def of(self, batch: Sequence[int], device: torch.device) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The teacher and the labels of some examples, one after the other."""
        chosen = {
            head: torch.tensor([row for index in batch for row in ranges[index]], dtype=torch.long)
            for head, ranges in self.rows.items()
        }
        targets = {head: rows[chosen[head]].to(device) for head, rows in self.teacher.items()}
        return targets, {head: rows[chosen[head]].to(device) for head, rows in self.labels.items()}


def _lesson(task: Task, examples: Sequence[Example], teacher: Mapping[str, Tensor]) -> _Lesson:
    if not examples:
        raise TrainingError("the public set holds no example to learn from; check its documents and its types")
    labels = [task.labels([example]) for example in examples]
    rows, joined = dict[str, list[range]](), dict[str, Tensor]()
    for head in task.classes():
        parts = [own[head].long() for own in labels]  # the labels of an example without rows are of no type
        rows[head] = [range(*ends) for ends in pairwise(accumulate(map(len, parts), initial=0))]
        joined[head] = torch.cat(parts)
    expected = {head: (len(joined[head]), classes) for head, classes in task.classes().items()}
    if teacher and {head: tuple(part.shape) for head, part in teacher.items()} != expected:
        raise TrainingError("the teacher has other heads, rows or classes than the public set under this model")
    return _Lesson(rows, joined, teacher)


# How near a student came.


@dataclass(frozen=True)
class Agreement:
    """Shares of rows on which the likeliest classes agree: of student and teacher, and of both with the labels.

    F1 is over all classes but 0, the negative one. Without labels only the agreements are known.
    """

    agreement_before: float
    agreement: float
    teacher_accuracy: float | None = None
    student_before: float | None = None
    student_accuracy: float | None = None
    teacher_f1: float | None = None
    student_f1_before: float | None = None
    student_f1: float | None = None

    @classmethod
    def of(cls, teacher: Tensor, before: Tensor, after: Tensor, labels: Tensor | None) -> Agreement:
        """From the rows of one head, at least one: the teacher's, and the student's before and after distillation."""
        likeliest = [rows.argmax(-1) for rows in (teacher, before, after)]
        agreements = [_share_equal(student, likeliest[0]) for student in likeliest[1:]]
        if labels is None:
            return cls(*agreements)
        right = [_share_equal(found, labels) for found in likeliest]
        return cls(*agreements, *right, *(_f1(found, labels) for found in likeliest))


def figures(
    teacher: Mapping[str, Tensor],
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    labels: Mapping[str, Tensor] | None,
) -> dict[str, float]:
    """What is known of `Agreement`, by name; with several heads, by head: `relations/agreement`.

    `before` and `after` are the student's scores. A head without rows has no figures.
    """
    found = dict[str, float]()
    for head, rows in teacher.items():
        if len(rows):
            own = Agreement.of(rows, before[head], after[head], None if labels is None else labels[head])
            prefix = f"{head}/" if len(teacher) > 1 else ""
            found |= {prefix + name: figure for name, figure in asdict(own).items() if figure is not None}
    return found


def _share_equal(left: Tensor, right: Tensor) -> float:
    return (left == right).double().mean().item()


def _f1(found: Tensor, labels: Tensor) -> float:
    right = int(((found == labels) & (labels != 0)).sum())
    return SpanCounts(right, int((found != 0).sum()) - right, int((labels != 0).sum()) - right).f1
