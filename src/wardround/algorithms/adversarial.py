"""Adversarial domain matching: the three baselines that Wang et al. 2023 compare with (Appendix A).

A discriminator on each layer of the encoder learns which site a sentence comes from; the network learns to prevent it.
Domain matching alone cannot handle types that a site does not annotate: trained on the labels as they are, these
methods could not reach the figures of Tables 1 and 2, which are close to those of pseudo-complete annotation. So they
use the same completed annotation here; sentences are not weighted.

`ganin` (Ganin 2016) is this method. `peng` (Peng 2019) also separates what the last layer encodes about the task from
what it encodes about the site. `hong` (Hong 2021) squares the adversarial loss, so that a site that is hard to
recognise counts more, and minimises the entropy at the words of pseudo-annotated mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from torch import Tensor

from wardround.algorithms.algorithm import Algorithm, SharedLayers, SiteStep
from wardround.algorithms.fedavg import LOCAL_TRAINING, FedAvg, local_delta
from wardround.algorithms.tagsets import COMPLETES, CompletionConfig, begin_completed, check_completion
from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.message import Message, Value
from wardround.federation.site_runtime import Site
from wardround.models.discriminators import Discriminators, entropy
from wardround.models.parameter_split import LayeredModel
from wardround.models.probes import StateRecorder
from wardround.tasks.completion import CompletedNer, TeacherLabels

__all__ = ["ALGORITHM", "Adversarial", "AdversarialConfig", "Adversary", "Method", "train_adversarially"]

Method = Literal["ganin", "peng", "hong"]
_METHODS: tuple[Method, ...] = get_args(Method)
_DISCRIMINATORS = "discriminators"  # the layer group that is attached to the model


@dataclass(frozen=True)
class AdversarialConfig(CompletionConfig):
    """The settings of all three methods."""

    method: Method = "ganin"
    strength: float = 1.0  # λ of Ganin 2016: factor of the reversed gradient of the discriminators

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.strength < float("inf"):
            raise TrainingError(f"strength is {self.strength}; it must be zero or above")

    def constant_settings(self) -> dict[str, Value]:
        """Return the settings of a request that are the same in every round."""
        own: dict[str, Value] = {"unknown": "pseudo", "method": self.method, "strength": self.strength}
        return {**super().constant_settings(), **own}


class Adversarial(FedAvg):
    """A server that averages the network and the discriminators; every site has the same weight (Appendix C)."""

    config: AdversarialConfig
    uniform_weights = True

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Have every site complete its annotation and train against the discriminators."""
        return context.gather("train_adversarially", self.local_settings())


@dataclass(frozen=True)
class Adversary:
    """The discriminators that a site's network is trained against, and the loss they add."""

    discriminators: Discriminators
    site: str
    method: Method
    strength: float

    @property
    def uses_predictions(self) -> bool:
        """Whether the loss uses predictions as well as states."""
        return self.method == "hong"

    def loss(self, recorded: StateRecorder) -> Tensor:
        """Return the adversarial loss of a batch, which is added to the task's."""
        loss = self.discriminators.loss(recorded.layers, self.site, strength=self.strength)
        if self.method == "peng":
            return loss + self.discriminators.separation_loss(recorded.last, self.site, strength=self.strength)
        if self.method == "ganin":
            return loss
        squared = loss.square() / 2
        return squared if recorded.predicted is None else squared + self.strength * entropy(recorded.predicted)


def train_adversarially(site: Site, message: Message) -> Message:
    """Complete the annotation, train on it against the discriminators, and send the update."""
    with site.all_or_nothing():
        learner, taught = begin_completed(site, message)
        delta, loss = local_delta(site, message, loss=partial(_loss, learner, taught, _adversary(site, message)))
        return site.announce(delta, weight=1.0, values={"loss": loss})


def _adversary(site: Site, message: Message) -> Adversary:
    method = next((name for name in _METHODS if name == message.value("method", str)), None)
    if method is None or _DISCRIMINATORS not in site.model.training_only:
        raise MessageError("value", "the model needs discriminators, and the method must be one that a study can name")
    discriminators = site.model.get_submodule(_DISCRIMINATORS)
    assert isinstance(discriminators, Discriminators), "nothing else is attached under this name"
    return Adversary(discriminators, site.name, method, message.value("strength", float))


def _loss(learner: CompletedNer, taught: TeacherLabels, adversary: Adversary, rows: Sequence[int]) -> Tensor:
    with learner.model.probes.recording(predictions=adversary.uses_predictions) as recorded:
        source, target, silence = learner.losses(rows, taught)
    return (source + target + silence).mean() + adversary.loss(recorded)


def _add_discriminators(config: AdversarialConfig, model: LayeredModel, sites: Sequence[str]) -> None:
    widths = model.probes.widths
    separated = widths[-1] if config.method == "peng" else 0  # states of the last layer
    model.attach(_DISCRIMINATORS, Discriminators(widths, tuple(sites), separated=separated))


ALGORITHM = Algorithm(
    name="adversarial",
    description="Adversarial baselines of tagsets: the network learns states that do not reveal a sentence's site.",
    config=AdversarialConfig(),
    training=LOCAL_TRAINING,
    server=Adversarial,
    steps={
        "train_adversarially": SiteStep(
            train_adversarially,
            f"{COMPLETES}; trains on both, and against layers that distinguish your sentences from those of other "
            "sites; sends the change of the shared layers, including those",
        )
    },
    shared_layers=SharedLayers.ALL,
    sends="updates",
    sent_to_sites=(
        "Other sites receive the updated shared layers. Some of these distinguish sites: they encode how the sentences "
        "of each site, including yours, differ from those of the others as the network reads them."
    ),
    tasks=("ner",),
    keep="last",
    constant_settings=AdversarialConfig.constant_settings,
    check_model=check_completion,
    prepare_model=_add_discriminators,
)
