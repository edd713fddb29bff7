"""FedED (Sui et al. 2020): sites give what their models predict on a public set, and no parameter.

In each round the sites that were drawn train on their own notes and predict; the mean of their predictions teaches the
central model on the public set. They begin from the central model, or, where each keeps its own, of whatever kind, they
learn on the public set themselves from the mean of the round before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wardround.algorithms.distillation import DistillationConfig, Exchanged, as_shared, distil, figures, teacher
from wardround.algorithms.fedavg import LocalConfig, train_locally
from wardround.errors import FederationError, MessageError, TrainingError
from wardround.federation.coordinator import Coordinator, RoundContext, RoundsConfig, RoundSum
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.site_runtime import PublicSet, Site, Step, rates_in
from wardround.secure_aggregation.predictions import Precision, check_mean
from wardround.tasks.task import Task, head_scores
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["STEPS", "FedEd", "FedEdConfig", "PublicConfig", "PublicOnly", "prediction_shapes", "train_and_predict"]

# By how much the rows of a mean may miss one. Under masks and seals each site rounds each of its numbers by half a
# unit, of 15 bits at most; in float16, which nobody packs, a row of probabilities is off by 2^-11 at most: twice that.
_UNIT, _HALVES = 2.0**-14, 2.0**-10


@dataclass(frozen=True)
class FedEdConfig(LocalConfig):
    """The settings of Algorithm 1 of the paper, and those it leaves open."""

    rounds: int = 30
    local_epochs: int = 2  # E
    keep_moments: bool = False
    start: Literal["central", "own"] = "central"  # what a site trains in a round: the central model, or its own
    exchange: Exchanged = "probabilities"  # what is averaged, Eq. 5
    precision: Precision = "float32"  # of a prediction on its way; masked or sealed, the packing decides
    top_k: int = 1  # of precision top-k: classes of a row that are sent
    temperature: float = 1.0  # τ, Eq. 4
    distillation_epochs: int = 1  # over the public set, in each round
    distillation_batch: int = 0  # 0 is the sites' batch size
    label_weight: float = 1.0  # of the labels of the public set in Eq. 6
    label_rounds: int = 0  # after so many rounds the teacher teaches alone; 0 is never, as in the paper
    teacher_weight: float = 1.0  # of the teacher

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("distillation_batch", "label_rounds"):
            if getattr(self, name) < 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be zero or above")
        if self.distillation_epochs < 1:
            raise TrainingError(f"distillation_epochs is {self.distillation_epochs}; it must be above zero")
        if not self.teacher_weight > 0:
            raise TrainingError(
                f"teacher_weight is {self.teacher_weight}; it must be above zero: without sites the algorithm public "
                "learns"
            )
        if self.precision == "top-k" and (self.exchange == "logits" or self.top_k < 1):
            raise TrainingError(
                "precision top-k sends the top_k likeliest classes of a row, one at least; of logits "
                "those left out cannot be told: exchange probabilities"
            )
        self.distillation(batch_size=1, labelled=True)

    @property
    def sites_keep_models(self) -> bool:
        """Whether a site's model is its own."""
        return self.start == "own"

    @property
    def needs_plain(self) -> str:
        """Under masks and seals every number is packed alike."""
        return "" if self.precision == "float32" else f"precision {self.precision}"

    @property
    def value_bound(self) -> float:
        """No probability is above one."""
        return 1.0 if self.exchange == "probabilities" else 0.0

    def constant_settings(self) -> dict[str, Value]:
        """How a site trains and predicts, and how it learns from the others where it keeps its model."""
        own: dict[str, Value] = {
            "temperature": self.temperature,
            "distillation_epochs": self.distillation_epochs,
            "distillation_batch": self.distillation_batch,
            "label_weight": self.label_weight,
            "label_rounds": self.label_rounds,
            "teacher_weight": self.teacher_weight,
        }
        return {**super().constant_settings(), "given_as": self.exchange, **(own if self.sites_keep_models else {})}

    def distillation(self, *, batch_size: int, labelled: bool) -> DistillationConfig:
        """How the central model learns."""
        return DistillationConfig(
            batch_size=self.distillation_batch or batch_size,
            epochs=self.distillation_epochs,
            temperature=self.temperature,
            label_weight=self.label_weight,
            teacher_weight=self.teacher_weight,
            labelled=labelled,
        )


@dataclass(frozen=True)
class PublicConfig(RoundsConfig):
    """The settings of a central model that learns from the public set alone."""

    rounds: int = 30
    epochs: int = 1  # over the public set, in each round

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 1:
            raise TrainingError(f"epochs is {self.epochs}; it must be above zero")


class _Central(Coordinator):
    """A coordinator that holds the model and the public set, and trains the one on the other."""

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

    def learn(self, taught: Mapping[str, Tensor], config: DistillationConfig) -> float:
        """One round of the central model on the public set; what is to tell of it is in `figures`."""
        parameters = self.task.model.parameters_in(self.task.model.groups)
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.shared[name])
        before = head_scores(self.task, self.public.examples)
        loss = distil(
            self.task,
            self.public.examples,
            taught,
            config=config,
            rates=self.training.rates(self.number + 1, self.config.rounds),
            clip=self.training.clip,
            seed=f"{self.seed}/round-{self.number + 1}/public",
        )
        after = head_scores(self.task, self.public.examples)
        self.figures = {**self._figures(taught, before, after), "public_loss": loss}
        for name, parameter in parameters.items():
            self.shared[name].copy_(parameter.detach())
        return loss

    def _figures(
        self, taught: Mapping[str, Tensor], before: Mapping[str, Tensor], after: Mapping[str, Tensor]
    ) -> dict[str, float]:
        if taught:
            return figures(taught, before, after, self._labels)
        return {
            name: share for name, share in figures(before, before, after, self._labels).items() if "student" in name
        }


class FedEd(_Central):
    """The server of Algorithm 1."""

    config: FedEdConfig
    uniform_weights = True  # Eq. 5; a site that asked for more would speak for the others

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._like = _blank(self.task, self.public.examples)
        self._mean: dict[str, Array] = {}  # of the last round: what sites that keep their models learn from

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Every site trains and predicts; a mean that only sites can open, they open for the coordinator."""
        gathered = context.opened(
            context.gather("train_and_predict", {**self.settings(), **self.config.constant_settings()})
        )
        assert gathered.mean is not None
        try:
            _check(gathered.mean, self._like, self.config.exchange, sites=len(gathered.sites))
        except MessageError as error:
            raise FederationError(f"the round's mean prediction cannot be used ({error.code})") from None
        return gathered

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Distil the ensemble into the central model (Eq. 4 to 6)."""
        self._mean = {head: np.array(rows) for head, rows in mean.items()}
        taught = {head: teacher(rows, self.config.exchange, self.config.temperature) for head, rows in mean.items()}
        labelled = self.public.labelled and _learns_labels(self.number + 1, self.config.label_rounds)
        self.learn(taught, self.config.distillation(batch_size=self.training.batch_size, labelled=labelled))

    def broadcast_arrays(self) -> dict[str, Array]:
        """The central model; where sites keep their own, what the ensemble said in the round before."""
        return grouped("mean", self._mean) if self.config.sites_keep_models else super().broadcast_arrays()

    def expected_arrays(self) -> dict[str, Array]:
        """Predictions on the public set."""
        return self._like

    def optimizer_state(self) -> dict[str, Tensor]:
        """What the ensemble said."""
        return {head: torch.from_numpy(rows) for head, rows in self._mean.items()}

    def load_optimizer_state(self, memory: Mapping[str, Tensor]) -> None:
        """Take up what `memory` gave."""
        self._mean = {head: rows.numpy() for head, rows in memory.items()}


class PublicOnly(_Central):
    """Learns from the public set alone: what a study with sites is measured against."""

    config: PublicConfig

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        if not self.public.labelled:
            raise TrainingError("the public set is not labelled, and the algorithm public learns from its labels alone")

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Nobody is asked."""
        config = DistillationConfig(
            batch_size=self.training.batch_size, epochs=self.config.epochs, labelled=self.public.labelled
        )
        context.note_loss(self.learn({}, config))
        return None


def prediction_shapes(task: Task, examples: Sequence[Any]) -> dict[str, tuple[int, int]]:
    """By head, the rows of some examples and the classes of each."""
    rows = {head: len(labels) for head, labels in task.labels(examples).items()}
    return {head: (rows[head], classes) for head, classes in task.classes().items()}


def _blank(task: Task, examples: Sequence[Any]) -> dict[str, Array]:
    """Arrays such as a prediction of some examples has."""
    return {head: np.zeros(shape, np.float32) for head, shape in prediction_shapes(task, examples).items()}


def _check(mean: Mapping[str, Array], like: Mapping[str, Array], exchange: Exchanged, *, sites: int) -> None:
    """Refuse, with a `MessageError`, what cannot be the mean of so many sites' predictions."""
    classes = max(rows.shape[1] for rows in like.values())
    tolerance = _HALVES + classes * sites * _UNIT / 2
    check_mean(mean, like, normalised=exchange == "probabilities", tolerance=tolerance)


def train_and_predict(site: Site, message: Message) -> Message:
    """LocalUpdate: train for a while, give the predictions on the public set."""
    exchange = _exchange(message)
    with site.all_or_nothing():
        site.check_round(message.value("round", int))
        if site.shared:
            site.receive(message)
        else:
            _learn_from_others(site, message, exchange)
        loss = train_locally(site, message)
        scores = head_scores(site.task, site.notes.public.examples)
        given = {head: as_shared(rows, exchange) for head, rows in scores.items()}
        return site.give(given, weight=1.0, values={"loss": loss})


def _learns_labels(number: int, label_rounds: int) -> bool:
    """Whether the labels of the public set are learned in a round; a small set is soon known by heart."""
    return not label_rounds or number <= label_rounds


def _exchange(message: Message) -> Exchanged:
    match message.value("given_as", str):
        case "probabilities":
            return "probabilities"
        case "logits":
            return "logits"
        case _:
            raise MessageError("value", "predictions are exchanged as probabilities or as logits")


def _learn_from_others(site: Site, message: Message, exchange: Exchanged) -> None:
    """A site with a model of its own learns on the public set what the ensemble said of it in the round before."""
    mean = message.group("mean")
    if not mean:
        return
    if any(rows.dtype != np.float32 for rows in mean.values()):
        raise MessageError("shapes", "the ensemble's mean is float32")
    sites = site.terms.sites if site.terms else 1
    _check(mean, _blank(site.task, site.notes.public.examples), exchange, sites=sites)
    config = DistillationConfig(
        batch_size=message.value("distillation_batch", int) or message.value("batch_size", int),
        epochs=message.value("distillation_epochs", int),
        temperature=message.value("temperature", float),
        label_weight=message.value("label_weight", float),
        teacher_weight=message.value("teacher_weight", float),
        labelled=site.notes.public.labelled
        and _learns_labels(message.value("round", int), message.value("label_rounds", int)),
    )
    distil(
        site.task,
        site.notes.public.examples,
        {head: teacher(rows, exchange, config.temperature) for head, rows in mean.items()},
        config=config,
        rates=rates_in(message),
        clip=message.value("clip", float),
        seed=f"{site.seed}/{site.name}/round-{message.value('round', int)}/public",
    )


STEPS: dict[str, Step] = {"train_and_predict": train_and_predict}
