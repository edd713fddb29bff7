"""Distillation: the predictions of several models on a public set teach another model (FedED, Section 3.3.2).

A model returns its scores of every class for each row of the public set, as probabilities or as logits. Their mean
(Eq. 5) is softened into the teacher q (Eq. 4); the student learns from the labels and the teacher together (Eq. 6).
Eq. 5 averages a quantity that it writes as p and calls a logit; here either can be averaged, and is softened
accordingly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import kl_div

from wardround.algorithms.algorithm import Payload, ServerInputs
from wardround.errors import StudyError, TrainingError
from wardround.evaluation.counts import SpanCounts
from wardround.federation.coordinator import Coordinator, RoundsConfig
from wardround.federation.message import Array
from wardround.federation.site_runtime import PublicSet
from wardround.models.parameter_split import LayeredModel
from wardround.tasks.task import Example, Task, head_scores
from wardround.training.batches import length_buckets
from wardround.training.loop import train_batches
from wardround.training.optimizer import ParameterOptimizer
from wardround.training.randomness import seeded_from
from wardround.training.training_config import Rates, RoundTrainingConfig

__all__ = [
    "DISTILLATION_TRAINING",
    "Agreement",
    "CentralCoordinator",
    "DistillationConfig",
    "PredictionKind",
    "agreement_figures",
    "check_distillable",
    "distil",
    "distillation_loss",
    "prediction_shapes",
    "predictions_payload",
    "predictions_to_send",
    "teacher_distribution",
]

PredictionKind = Literal["probabilities", "logits"]
DISTILLATION_TRAINING = RoundTrainingConfig(batch_size=16, learning_rate=5e-5)  # for encoders


# Predictions and their mean.


def predictions_to_send(scores: Tensor, kind: PredictionKind) -> npt.NDArray[np.float32]:
    """Return what a model sends of its scores [rows, classes]: probabilities, or the scores themselves."""
    _check_kind(kind)
    rows = scores.detach().float().cpu()
    shared: npt.NDArray[np.float32] = (rows.softmax(-1) if kind == "probabilities" else rows.clone()).numpy()
    return shared


def teacher_distribution(mean: npt.NDArray[Any], kind: PredictionKind, temperature: float) -> Tensor:
    """Return the softened distribution q of each row of a mean (Eq. 4): [rows, classes], float32, on the CPU.

    For logits z it is softmax(z/τ). The logarithms of probabilities p are logits, so for p it is p^(1/τ) over its sum.
    """
    _check_kind(kind)
    logits = torch.from_numpy(np.array(mean, np.float64))
    if kind == "probabilities":
        # Rounding in a protected sum may leave a zero just below zero. log(0) is −∞, which softmax turns back into 0.
        logits = logits.clamp(min=0.0).log()
    softened = (logits / temperature).softmax(-1).float()
    if not bool(softened.isfinite().all()):
        raise TrainingError("a row of the mean prediction is not a distribution: it is all zero, or not finite")
    return softened


def _check_kind(kind: str) -> None:
    if kind not in get_args(PredictionKind):
        raise TrainingError(f"predictions is {kind!r}; it can be {' or '.join(get_args(PredictionKind))}")


# How a student learns from its teacher.


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """How a student learns from its teacher and from labels; without labels, `label_weight` becomes 0."""

    batch_size: int
    epochs: int = 1
    temperature: float = 1.0  # τ, Eq. 4
    label_weight: float = 1.0  # of the first term of Eq. 6
    teacher_weight: float = 1.0  # of the second
    labelled: bool = True  # whether the labels of the public set are used

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
                "teacher_weight is 0, and label_weight is 0 or the public set has no labels; nothing would be learned"
            )


def distillation_loss(
    heads: Mapping[str, Tensor],
    teacher: Mapping[str, Tensor],
    labels: Mapping[str, Tensor] | None,
    config: DistillationConfig,
) -> Tensor:
    """Return Eq. 6: cross-entropy and D(q‖p), weighted, averaged over the rows of a head, summed over the heads.

    p is the student's distribution, which τ does not soften. A head without rows counts 0. Without a teacher, only
    labels count.
    """
    targets, used = teacher if config.teacher_weight else {}, labels if config.label_weight else None
    if not targets and used is None:
        raise TrainingError("neither the teacher nor the labels have any weight; nothing would be learned")
    losses = [
        _head_loss(scores, targets[head] if targets else None, None if used is None else used[head], config)
        for head, scores in heads.items()
    ]
    return torch.stack(losses).sum()


def _head_loss(scores: Tensor, teacher: Tensor | None, labels: Tensor | None, config: DistillationConfig) -> Tensor:
    if not len(scores):
        return scores.sum()  # zero, but still part of the graph
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
    """Train the task's model in place on public examples; return the mean loss over examples and epochs.

    `teacher` has, by head, one row for each row of the examples, in their order; without a teacher, only labels are
    used. Batches and dropout depend on the seed alone. If a loss or gradient is not finite, training stops with an
    error and the caller must restore the model.
    """
    targets_by_row = _targets_of(task, examples, teacher or {})
    parameters = {name: tensor for name, tensor in task.model.named_parameters() if tensor.requires_grad}
    lengths = [task.length(example) for example in examples]
    batches = [
        batch
        for epoch in range(1, config.epochs + 1)
        for batch in length_buckets(lengths, config.batch_size, f"{seed}/epoch-{epoch}")
    ]

    def loss_of(batch: Sequence[int]) -> Tensor:
        targets, labels = targets_by_row.of(batch, task.model.device)
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
    task.model.zero_grad(set_to_none=True)  # free memory as large as the model
    return total / (config.epochs * len(examples))


@dataclass(frozen=True)
class _Targets:
    """The targets of every row of the examples, by head, and which rows belong to which example."""

    rows: Mapping[str, Sequence[range]]  # for each example
    labels: Mapping[str, Tensor]  # [rows]
    teacher: Mapping[str, Tensor]  # [rows, classes]; empty without one

    def of(self, batch: Sequence[int], device: torch.device) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the teacher and the labels of some examples, concatenated."""
        chosen = {
            head: torch.tensor([row for index in batch for row in ranges[index]], dtype=torch.long)
            for head, ranges in self.rows.items()
        }
        targets = {head: rows[chosen[head]].to(device) for head, rows in self.teacher.items()}
        return targets, {head: rows[chosen[head]].to(device) for head, rows in self.labels.items()}


def _targets_of(task: Task, examples: Sequence[Example], teacher: Mapping[str, Tensor]) -> _Targets:
    if not examples:
        raise TrainingError("the public set holds no example to learn from; check its documents and its types")
    labels = [task.labels([example]) for example in examples]
    rows, joined = dict[str, list[range]](), dict[str, Tensor]()
    for head in task.classes():
        parts = [own[head].long() for own in labels]  # an example without rows has labels without a dtype
        rows[head] = [range(*ends) for ends in pairwise(accumulate(map(len, parts), initial=0))]
        joined[head] = torch.cat(parts)
    expected = {head: (len(joined[head]), classes) for head, classes in task.classes().items()}
    if teacher and {head: tuple(part.shape) for head, part in teacher.items()} != expected:
        raise TrainingError("the teacher has other heads, rows or classes than the public set under this model")
    return _Targets(rows, joined, teacher)


# How well a student learned.


@dataclass(frozen=True)
class Agreement:
    """Fractions of rows with the same likeliest class: student and teacher, and each of them and the labels.

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
        """Compare the rows of one head, at least one: the teacher's, the student's before and after distillation."""
        likeliest = [rows.argmax(-1) for rows in (teacher, before, after)]
        agreements = [_share_equal(student, likeliest[0]) for student in likeliest[1:]]
        if labels is None:
            return cls(*agreements)
        right = [_share_equal(found, labels) for found in likeliest]
        return cls(*agreements, *right, *(_f1(found, labels) for found in likeliest))


def agreement_figures(
    teacher: Mapping[str, Tensor],
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    labels: Mapping[str, Tensor] | None,
) -> dict[str, float]:
    """Return the known fields of `Agreement` by name; with several heads, as in `relations/agreement`.

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


# The coordinator of algorithms that distil.


def prediction_shapes(task: Task, examples: Sequence[Any]) -> dict[str, tuple[int, int]]:
    """Return (rows, classes) by head for the predictions on some examples."""
    rows = {head: len(labels) for head, labels in task.labels(examples).items()}
    return {head: (rows[head], classes) for head, classes in task.classes().items()}


def predictions_payload(task: Task, public: PublicSet, *, bound: float) -> Payload:
    """Return the payload of sites that send predictions on the public set; `bound` is 0 if it is not known."""
    heads = prediction_shapes(task, public.examples)
    return Payload(
        heads,
        {head: head for head in heads},
        dict.fromkeys(heads, bound) if bound else {},
        sum(parameter.numel() for parameter in task.model.shared_parameters().values()),
    )


def check_distillable(algorithm: str, model: LayeredModel) -> None:
    """Raise a StudyError if the rows of a model's predictions do not determine its output."""
    if model.not_distillable:
        raise StudyError(
            f"[model] {model.not_distillable}; {algorithm} distils each word's tag on its own: name an encoder with "
            'decoder = "softmax"'
        )


class CentralCoordinator(Coordinator):
    """A coordinator that holds the model and trains it on the public set."""

    central = True

    def __init__(
        self,
        shared: Mapping[str, Array],
        config: RoundsConfig,
        training: RoundTrainingConfig,
        *,
        task: Task,
        public: PublicSet,
        seed: int = 0,
        output: Sequence[str] = (),
    ) -> None:
        super().__init__(shared, config, training, seed=seed, output=output)
        self.task, self.public = task, public
        self._labels = task.labels(public.examples) if public.labelled else None

    @classmethod
    def build(cls, inputs: ServerInputs[Any]) -> Self:
        """Build the coordinator as it is before round 1; an algorithm declares it as its `build_server`."""
        return cls(
            inputs.shared,
            inputs.config,
            inputs.training,
            task=inputs.task,
            public=inputs.public,
            seed=inputs.seed,
            output=inputs.output,
        )

    def learn(self, teacher: Mapping[str, Tensor], config: DistillationConfig) -> float:
        """Train the central model for one round on the public set; return the loss and write `figures`."""
        parameters = self.task.model.parameters_in(self.task.model.groups)
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.shared[name])
        before = head_scores(self.task, self.public.examples)
        loss = distil(
            self.task,
            self.public.examples,
            teacher,
            config=config,
            rates=self.training.rates(self.number + 1, self.config.rounds),
            clip=self.training.clip,
            seed=f"{self.seed}/round-{self.number + 1}/public",
        )
        after = head_scores(self.task, self.public.examples)
        found = agreement_figures(teacher or before, before, after, self._labels)
        if not teacher:  # without a teacher, only the student's own figures mean something
            found = {name: share for name, share in found.items() if "student" in name}
        self.figures = {**found, "public_loss": loss}
        for name, parameter in parameters.items():
            self.shared[name].copy_(parameter.detach())
        return loss
