"""FedED (Sui et al. 2020): sites send their models' predictions on a public set, and no parameters.

In each round the selected sites train on their own notes and predict; the mean of their predictions teaches the central
model on the public set. Sites start each round from the central model. If each keeps a model of its own, of any kind,
it first learns on the public set from the mean of the previous round.

Under differential privacy the teachers are private: a site trains by DP-SGD, and what its model then predicts is as
private as the model. Noise on the votes alone would not protect a single unit, because one unit may change every vote
of its site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wardround.algorithms.algorithm import Algorithm, NoisySteps, Payload, SharedLayers, SiteStep
from wardround.algorithms.distillation import (
    DISTILLATION_TRAINING,
    CentralCoordinator,
    DistillationConfig,
    PredictionKind,
    check_distillable,
    distil,
    prediction_shapes,
    predictions_payload,
    predictions_to_send,
    teacher_distribution,
)
from wardround.algorithms.fedavg import LocalConfig, train_locally, train_with_noise
from wardround.errors import FederationError, MessageError, TrainingError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.site_runtime import PublicSet, Site, rates_in
from wardround.models.parameter_split import LayeredModel
from wardround.secure_aggregation.predictions import PlainPredictions, Precision, check_mean
from wardround.tasks.task import Task, head_scores
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["ALGORITHM", "FedEd", "FedEdConfig", "train_and_predict"]

# Tolerance for the sum of a row of a mean, which should be 1. In a protected sum each site rounds each number by half a
# unit, of 15 bits at most. In float16, which is sent unprotected only, a row is off by at most 2^-11; twice that is
# allowed.
_PACKING_UNIT, _FLOAT16_TOLERANCE = 2.0**-14, 2.0**-10


@dataclass(frozen=True)
class FedEdConfig(LocalConfig):
    """The settings of Algorithm 1 of the paper, and those that it leaves open."""

    rounds: int = 30
    local_epochs: int = 2  # E
    keep_moments: bool = False
    site_models: Literal["central", "own"] = "central"  # what a site trains in a round
    predictions: PredictionKind = "probabilities"  # what is averaged, Eq. 5
    precision: Precision = "float32"  # of predictions on the wire; a protected sum uses its own packing
    top_k: int = 1  # for precision top-k: classes per row that are sent
    temperature: float = 1.0  # τ, Eq. 4
    distillation_epochs: int = 1  # over the public set, per round
    distillation_batch: int = 0  # sentences behind one step on the public set; 0 means `batch_size`
    label_weight: float = 1.0  # of the labels of the public set in Eq. 6
    label_rounds: int = 0  # rounds in which labels are used; 0 means all, as in the paper
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
                f"teacher_weight is {self.teacher_weight}; it must be above zero; to learn without sites, use the "
                "algorithm public"
            )
        if self.precision == "top-k" and (self.predictions == "logits" or self.top_k < 1):
            raise TrainingError(
                "precision top-k sends the top_k likeliest classes of a row, at least one; the logits of the others "
                "cannot be estimated: set predictions to probabilities"
            )
        self.distillation(batch_size=1, labelled=True)

    @property
    def sites_keep_models(self) -> bool:
        """Whether every site keeps a model of its own."""
        return self.site_models == "own"

    @property
    def value_bound(self) -> float:
        """Return the largest absolute value of a prediction, 0 if there is no limit."""
        return 1.0 if self.predictions == "probabilities" else 0.0

    def constant_settings(self) -> dict[str, Value]:
        """Return the settings of a request that are the same in every round."""
        own: dict[str, Value] = {
            "temperature": self.temperature,
            "distillation_epochs": self.distillation_epochs,
            "distillation_batch": self.distillation_batch,
            "label_weight": self.label_weight,
            "label_rounds": self.label_rounds,
            "teacher_weight": self.teacher_weight,
        }
        return {**super().constant_settings(), "given_as": self.predictions, **(own if self.sites_keep_models else {})}

    def distillation(self, *, batch_size: int, labelled: bool) -> DistillationConfig:
        """Return how the central model learns."""
        return DistillationConfig(
            batch_size=self.distillation_batch or batch_size,
            epochs=self.distillation_epochs,
            temperature=self.temperature,
            label_weight=self.label_weight,
            teacher_weight=self.teacher_weight,
            labelled=labelled,
        )


class FedEd(CentralCoordinator):
    """The server of Algorithm 1."""

    config: FedEdConfig
    uniform_weights = True  # Eq. 5; a larger weight would let one site dominate the mean

    def __init__(
        self,
        shared: Mapping[str, Array],
        config: FedEdConfig,
        training: RoundTrainingConfig,
        *,
        task: Task,
        public: PublicSet,
        seed: int = 0,
        output: Sequence[str] = (),
    ) -> None:
        super().__init__(shared, config, training, task=task, public=public, seed=seed, output=output)
        self._expected = _zero_predictions(self.task, self.public.examples)
        self._mean: dict[str, Array] = {}  # of the last round; sites that keep their models learn from it

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Have every site train and predict; sites open a sealed mean for the coordinator."""
        settings = {**self.settings(), **self.config.constant_settings()}
        gathered = context.gather("train_and_predict", settings).opened(context)
        try:
            _check_mean_prediction(gathered.mean, self._expected, self.config.predictions, sites=len(gathered.sites))
        except MessageError as error:
            raise FederationError(f"the round's mean prediction cannot be used ({error.code})") from None
        return gathered

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Distil the ensemble into the central model (Eq. 4 to 6)."""
        self._mean = {head: np.array(rows) for head, rows in mean.items()}
        targets = {
            head: teacher_distribution(rows, self.config.predictions, self.config.temperature)
            for head, rows in mean.items()
        }
        labelled = self.public.labelled and _learns_labels(self.number + 1, self.config.label_rounds)
        self.learn(targets, self.config.distillation(batch_size=self.training.batch_size, labelled=labelled))

    def broadcast_arrays(self) -> dict[str, Array]:
        """Return the central model, or the mean of the previous round if sites keep models of their own."""
        return grouped("mean", self._mean) if self.config.sites_keep_models else super().broadcast_arrays()

    def expected_arrays(self) -> dict[str, Array]:
        """Return zeros in the shape of predictions on the public set."""
        return self._expected

    def optimizer_state(self) -> dict[str, Tensor]:
        """Return the mean prediction of the last round."""
        return {head: torch.from_numpy(rows) for head, rows in self._mean.items()}

    def load_optimizer_state(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the mean prediction of the last round."""
        self._mean = {head: rows.numpy() for head, rows in memory.items()}


def _zero_predictions(task: Task, examples: Sequence[Any]) -> dict[str, Array]:
    """Return zeros in the shape of predictions on some examples."""
    return {head: np.zeros(shape, np.float32) for head, shape in prediction_shapes(task, examples).items()}


def _check_mean_prediction(
    mean: Mapping[str, Array], like: Mapping[str, Array], kind: PredictionKind, *, sites: int
) -> None:
    """Raise a `MessageError` if `mean` cannot be the mean of the predictions of that many sites."""
    classes = max(rows.shape[1] for rows in like.values())
    tolerance = _FLOAT16_TOLERANCE + classes * sites * _PACKING_UNIT / 2
    check_mean(mean, like, normalised=kind == "probabilities", tolerance=tolerance)


def train_and_predict(site: Site, message: Message) -> Message:
    """Run LocalUpdate: train locally and send the predictions on the public set."""
    kind = _prediction_kind(message)
    with site.all_or_nothing():
        site.begin_round(message.value("round", int))
        if site.shared:
            site.receive(message)
        else:
            _learn_from_others(site, message, kind)
        values: dict[str, Value] = {}
        if site.unit_privacy is not None:
            train_with_noise(site, message, site.unit_privacy)
        else:
            values["loss"] = train_locally(site, message)
        scores = head_scores(site.task, site.notes.public.examples)
        predictions = {head: predictions_to_send(rows, kind) for head, rows in scores.items()}
        return site.announce(predictions, weight=1.0, values=values)


def _learns_labels(number: int, label_rounds: int) -> bool:
    """Whether a round uses the labels of the public set; a small set is soon memorised."""
    return not label_rounds or number <= label_rounds


def _prediction_kind(message: Message) -> PredictionKind:
    match message.value("given_as", str):
        case "probabilities":
            return "probabilities"
        case "logits":
            return "logits"
        case _:
            raise MessageError("value", "predictions must be probabilities or logits")


def _learn_from_others(site: Site, message: Message, kind: PredictionKind) -> None:
    """Train a site's own model on the public set with the mean prediction of the previous round as teacher."""
    mean = message.group("mean")
    if not mean:
        return
    if any(rows.dtype != np.float32 for rows in mean.values()):
        raise MessageError("shapes", "the mean prediction must be float32")
    sites = site.request_policy.sites if site.request_policy else 1
    _check_mean_prediction(mean, _zero_predictions(site.task, site.notes.public.examples), kind, sites=sites)
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
        {head: teacher_distribution(rows, kind, config.temperature) for head, rows in mean.items()},
        config=config,
        rates=rates_in(message),
        clip=message.value("clip", float),
        seed=f"{site.seed}/{site.name}/round-{message.value('round', int)}/public",
    )


def _payload(config: FedEdConfig, task: Task, public: PublicSet) -> Payload:
    return predictions_payload(task, public, bound=config.value_bound)


def _plain_codec(config: FedEdConfig, payload: Payload) -> PlainPredictions:
    return PlainPredictions(
        payload.shapes,
        precision=config.precision,
        top_k=config.top_k,
        normalised=config.predictions == "probabilities",
    )


def _noisy_steps(config: FedEdConfig) -> NoisySteps | None:
    # Whole epochs are not Poisson samples; a model of a site's own would be a private one.
    countable = config.local_steps and not config.sites_keep_models
    return NoisySteps(config.local_steps, shared=False) if countable else None


def _check_model(config: FedEdConfig, model: LayeredModel) -> None:
    check_distillable("feded", model)


ALGORITHM = Algorithm(
    name="feded",
    description="FedED: sites send predictions on a public set; their mean teaches the central model.",
    config=FedEdConfig(),
    training=DISTILLATION_TRAINING,
    server=FedEd,
    steps={
        "train_and_predict": SiteStep(
            train_and_predict, "trains on your notes and sends what the model then predicts on the public notes"
        )
    },
    shared_layers=SharedLayers.ALL,
    sends="predictions",
    sent_to_sites=(
        "Other sites receive the updated central model or, if each keeps a model of its own, the mean of all sites' "
        "predictions on the public notes."
    ),
    needs_public_set=True,
    own_models_setting='site_models = "own"',
    old_settings={"start": "site_models", "exchange": "predictions"},
    constant_settings=FedEdConfig.constant_settings,
    sites_keep_models=lambda config: config.sites_keep_models,
    plain_only=lambda config: "" if config.precision == "float32" else f"precision {config.precision}",
    value_bound=lambda config: config.value_bound,
    payload=_payload,
    plain_codec=_plain_codec,
    check_model=_check_model,
    build_server=FedEd.build,
    noisy_steps=_noisy_steps,
)
