"""Training on the public set alone, the baseline that FedED is compared with: no site takes part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wardround.algorithms.algorithm import Algorithm, Payload, SharedLayers
from wardround.algorithms.distillation import (
    DISTILLATION_TRAINING,
    CentralCoordinator,
    DistillationConfig,
    check_distillable,
    predictions_payload,
)
from wardround.errors import TrainingError
from wardround.federation.coordinator import RoundContext, RoundsConfig, RoundSum
from wardround.federation.message import Array
from wardround.federation.site_runtime import PublicSet
from wardround.models.parameter_split import LayeredModel
from wardround.tasks.task import Task
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["ALGORITHM", "PublicConfig", "PublicOnly"]


@dataclass(frozen=True)
class PublicConfig(RoundsConfig):
    """The settings of a central model that learns from the public set alone."""

    rounds: int = 30
    public_epochs: int = 1  # over the public set, per round

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.public_epochs < 1:
            raise TrainingError(f"public_epochs is {self.public_epochs}; it must be above zero")


class PublicOnly(CentralCoordinator):
    """A server that trains the central model on the labels of the public set."""

    config: PublicConfig

    def __init__(
        self,
        shared: Mapping[str, Array],
        config: PublicConfig,
        training: RoundTrainingConfig,
        *,
        task: Task,
        public: PublicSet,
        seed: int = 0,
        output: Sequence[str] = (),
    ) -> None:
        super().__init__(shared, config, training, task=task, public=public, seed=seed, output=output)
        if not self.public.labelled:
            raise TrainingError("the public set is not labelled, and the algorithm public learns from its labels alone")

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Train at the coordinator; no site is asked."""
        config = DistillationConfig(
            batch_size=self.training.batch_size, epochs=self.config.public_epochs, labelled=self.public.labelled
        )
        context.note_loss(self.learn({}, config))
        return None


def _check_model(config: PublicConfig, model: LayeredModel) -> None:
    check_distillable("public", model)


def _payload(config: PublicConfig, task: Task, public: PublicSet) -> Payload:
    return predictions_payload(task, public, bound=0.0)


ALGORITHM = Algorithm(
    name="public",
    description="The central model learns from the public set alone: the baseline for FedED.",
    config=PublicConfig(),
    training=DISTILLATION_TRAINING,
    server=PublicOnly,
    steps={},
    shared_layers=SharedLayers.ALL,
    sends="nothing",
    sent_to_sites="Other sites receive the model that learned from the public notes alone; it holds nothing of yours.",
    needs_public_set=True,
    old_settings={"epochs": "public_epochs"},
    payload=_payload,
    check_model=_check_model,
    build_server=PublicOnly.build,
)
