"""The declaration of an algorithm: everything that the rest of Wardround must know about it.

An algorithm file ends with `ALGORITHM = Algorithm(...)`. No other file names the algorithm but one line of the
catalogue, or one entry point of an installed package. Fields that depend on settings are functions of the algorithm's
configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

from wardround.federation.coordinator import Coordinator, RoundsConfig
from wardround.federation.message import Array, Value
from wardround.federation.site_runtime import PublicSet, Step
from wardround.models.parameter_split import LayeredModel
from wardround.secure_aggregation.plain import PlainCodec, PlainUpdates
from wardround.tasks.task import Task
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["Algorithm", "NoisySteps", "Payload", "ServerInputs", "SharedLayers", "SiteStep", "shared_layers_payload"]

Config = TypeVar("Config", bound=RoundsConfig)


class SharedLayers(Enum):
    """Which layers of the model the sites share."""

    CONFIGURED = "configured"  # those that the section [model] names
    NONE = "none"
    ALL = "all"  # the output layers included; none if sites keep models of their own
    ALL_COMMON = "all-common"  # all; without the output layers if sites differ in types or tag scheme


@dataclass(frozen=True)
class SiteStep:
    """What a site does when the coordinator asks for it, and the sentence `site review` prints about it."""

    run: Step
    review: str  # follows the step's name, as in "trains on your notes and sends …"


@dataclass(frozen=True)
class NoisySteps:
    """How an algorithm trains under differential privacy."""

    per_round: int  # sums with noise that a site computes in a round
    shared: bool  # the site sends the sum itself, so that the noise of several sites adds up; otherwise each adds all


@dataclass(frozen=True)
class Payload:
    """What a site sends to be aggregated: the shape of each array, its group, and known bounds by group."""

    shapes: Mapping[str, tuple[int, ...]]
    groups: Mapping[str, str]
    bounds: Mapping[str, float]  # largest absolute value; a missing one is configured, or learned in round 1
    gradient_size: int = 0  # numbers of the gradient that it is computed from


@dataclass(frozen=True)
class ServerInputs(Generic[Config]):
    """What the coordinator's side of an algorithm is built from."""

    shared: Mapping[str, Array]
    config: Config
    training: RoundTrainingConfig
    seed: int
    output: Sequence[str]  # names of the shared parameters that belong to output layers
    task: Task
    public: PublicSet


def shared_layers_payload(config: RoundsConfig, task: Task, public: PublicSet) -> Payload:
    """Return the payload of an algorithm whose sites send an update of the shared layers."""
    shared = task.model.shared_parameters()
    return Payload(
        {name: tuple(parameter.shape) for name, parameter in shared.items()},
        {name: task.model.group_of(name) for name in shared},
        {},
        sum(parameter.numel() for parameter in shared.values()),
    )


@dataclass(frozen=True, kw_only=True)
class Algorithm(Generic[Config]):
    """One algorithm: its settings, both of its sides, and what it needs."""

    name: str
    description: str  # one sentence, for lists and reports
    config: Config  # the section [algorithm] with its defaults
    training: RoundTrainingConfig  # the section [training] with its defaults
    server: type[Coordinator]
    steps: Mapping[str, SiteStep]
    shared_layers: SharedLayers
    sends: Literal["updates", "predictions", "nothing", "notes"]  # what leaves a site, for reports
    sent_to_sites: str  # sentence for `site review`: what the coordinator sends to every other site

    tasks: tuple[str, ...] = ("ner", "relations", "joint")  # that it can learn
    keep: Literal["best", "last"] = "best"  # round whose model a study ends with by default
    needs_public_set: bool = False
    needs_single_updates: bool = False  # the sum of the updates is not enough, so no mechanism may hide them
    comparable_updates: bool = False  # every site sends one update of the same layers, which a robust rule can compare
    one_machine_only: bool = False  # it needs all notes in one place
    own_models_setting: str = ""  # the setting with which sites keep models of their own, for error messages
    old_settings: Mapping[str, str] = field(default_factory=dict)  # names in version 0.1 and their present names

    # Functions of the configuration.
    constant_settings: Callable[[Config], Mapping[str, Value]] = lambda config: {}
    # ^ settings that never change between rounds; a site rejects requests that differ
    sites_keep_models: Callable[[Config], bool] = lambda config: False
    plain_only: Callable[[Config], str] = lambda config: ""  # the setting that only mechanism plain can serve
    value_bound: Callable[[Config], float] = lambda config: 0.0  # largest absolute value that sites send; 0: unknown
    noisy_steps: Callable[[Config], NoisySteps | None] = lambda config: None  # None: it does not clip single units
    payload: Callable[[Config, Task, PublicSet], Payload] = shared_layers_payload
    plain_codec: Callable[[Config, Payload], PlainCodec] = lambda config, payload: PlainUpdates()
    check_model: Callable[[Config, LayeredModel], None] = lambda config, model: None  # raise StudyError if unfit
    prepare_model: Callable[[Config, LayeredModel, Sequence[str]], None] = lambda config, model, sites: None
    # ^ add what the algorithm needs to a new model; `sites` are the study's
    build_server: Callable[[ServerInputs[Config]], Coordinator] | None = None  # if `server` takes more arguments

    @property
    def site_steps(self) -> dict[str, Step]:
        """Return the functions that a site runs, by the name of the step."""
        return {name: step.run for name, step in self.steps.items()}

    @property
    def central_model(self) -> bool:
        """Whether the model stays at the coordinator, even if only sites can open a sum."""
        return self.server.central

    def coordinator(self, inputs: ServerInputs[Any]) -> Coordinator:
        """Build the coordinator's side as it is before round 1."""
        if self.build_server is not None:
            return self.build_server(inputs)
        return self.server(inputs.shared, inputs.config, inputs.training, seed=inputs.seed, output=inputs.output)
