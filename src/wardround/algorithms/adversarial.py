"""Domains matched by adversaries: the three baselines that Wang et al. 2023 measure against (Appendix A).

A discriminator on each layer of the encoder learns to tell which site a sentence is of; the network learns to let it
not. Domain matching alone knows nothing of types that a site does not annotate: trained on labels as they are, these
methods could not come near the figures of Tables 1 and 2, which lie beside those of pseudo-complete annotation. So they
stand on the same annotation here, completed with what the global model of the round finds; sentences are not weighted.

`ganin` (Ganin 2016) is this; `peng` (Peng 2019) also parts what the last layer says of the task from what it says of
the site; `hong` (Hong 2021) squares the adversarial loss, so that a site that is told badly counts for more, and makes
the network sure of itself at the words of pseudo-annotated mentions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from torch import Tensor

from wardround.algorithms.fedavg import FedAvg, local_delta
from wardround.algorithms.tagsets import CompletionConfig, begin_completed
from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.message import Message, Value
from wardround.federation.site_runtime import Site, Step
from wardround.models.discriminators import Discriminators, Watched, entropy
from wardround.models.tagging_model import TaggingModel
from wardround.tasks.completion import CompletedNer, Taught

__all__ = ["STEPS", "Adversarial", "AdversarialConfig", "Adversary", "Method", "train_adversarially"]

Method = Literal["ganin", "peng", "hong"]
_METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True)
class AdversarialConfig(CompletionConfig):
    """The settings of all three."""

    method: Method = "ganin"
    strength: float = 1.0  # λ of Ganin 2016: how much of what a discriminator learns the network unlearns

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.strength < float("inf"):
            raise TrainingError(f"strength is {self.strength}; it must be zero or above")

    @property
    def parts(self) -> bool:
        """Whether the last layer is parted into what is of the task and what is of the site."""
        return self.method == "peng"

    def constant_settings(self) -> dict[str, Value]:
        """How far a site goes in a round, and against whom."""
        own: dict[str, Value] = {"unknown": "pseudo", "method": self.method, "strength": self.strength}
        return {**super().constant_settings(), **own}


class Adversarial(FedAvg):
    """Averages the network and the discriminators; a small site is heard as a large one (Appendix C)."""

    config: AdversarialConfig
    uniform_weights = True

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Every site completes its annotation and trains against the discriminators."""
        return context.gather("train_adversarially", self.local_settings())


@dataclass(frozen=True)
class Adversary:
    """What a site's network is trained against."""

    discriminators: Discriminators
    site: str
    method: Method
    strength: float

    @property
    def looks_at_predictions(self) -> bool:
        """Beside states."""
        return self.method == "hong"

    def loss(self, seen: Watched) -> Tensor:
        """Of a batch, beside the task's."""
        told = self.discriminators.loss(seen.layers, self.site, strength=self.strength)
        if self.method == "peng":
            return told + self.discriminators.parting_loss(seen.last, self.site, strength=self.strength)
        if self.method == "ganin":
            return told
        squared = told.square() / 2
        return squared if seen.predicted is None else squared + self.strength * entropy(seen.predicted)


def train_adversarially(site: Site, message: Message) -> Message:
    """Complete the annotation, and train on it against the discriminators."""
    with site.all_or_nothing():
        learner, taught = begin_completed(site, message)
        way, loss = local_delta(site, message, loss=partial(_loss, learner, taught, _adversary(site, message)))
        return site.give(way, weight=1.0, values={"loss": loss})


def _adversary(site: Site, message: Message) -> Adversary:
    method = next((name for name in _METHODS if name == message.value("method", str)), None)
    model = site.model
    if method is None or not isinstance(model, TaggingModel) or model.discriminators is None:
        raise MessageError("value", "a network is trained against its own discriminators, in one of the study's ways")
    return Adversary(model.discriminators, site.name, method, message.value("strength", float))


def _loss(learner: CompletedNer, taught: Taught, adversary: Adversary, rows: Sequence[int]) -> Tensor:
    with _watching(learner.model, Watched(predictions=adversary.looks_at_predictions)) as seen:
        source, target, silence = learner.losses(rows, taught)
    return (source + target + silence).mean() + adversary.loss(seen)


@contextmanager
def _watching(model: TaggingModel, seen: Watched) -> Iterator[Watched]:
    model.watched = seen
    try:
        yield seen
    finally:
        model.watched = None


STEPS: dict[str, Step] = {"train_adversarially": train_adversarially}
