"""Federated averaging (McMahan et al. 2017) of the shared half of a model; each site keeps a private half.

In each round every site trains both halves on its own notes and sends the change of its shared half. The mean of these
changes, weighted by the sites' sizes, is added to the shared half of all.

Under differential privacy a site trains by DP-SGD (Abadi et al. 2016): every local step follows the sum of the clipped
gradients of a random sample, with all of the noise, so that everything computed from it is private too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wardround.algorithms.algorithm import Algorithm, NoisySteps, SharedLayers, SiteStep
from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import Coordinator, RoundContext, RoundsConfig, RoundSum
from wardround.federation.message import Array, Message, Value
from wardround.federation.site_runtime import Site, rates_in
from wardround.federation.unit_privacy import UnitPrivacy
from wardround.training.loop import train_batches
from wardround.training.training_config import RoundTrainingConfig

__all__ = [
    "ALGORITHM",
    "LOCAL_TRAINING",
    "FedAvg",
    "FedAvgConfig",
    "LocalConfig",
    "add",
    "local_delta",
    "local_update",
    "noisy_update",
    "train",
    "train_locally",
    "train_with_noise",
]

LOCAL_TRAINING = RoundTrainingConfig(batch_size=16)  # smaller than FedNER's: each site takes its own steps


@dataclass(frozen=True)
class LocalConfig(RoundsConfig):
    """How long a site trains in a round."""

    rounds: int = 50
    local_epochs: int = 1  # E, passes over a site's notes per round
    local_steps: int = 0  # mini-batches per round instead of epochs; 0 means epochs
    keep_moments: bool = True  # whether a site keeps Adam's moments from one round to the next

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_epochs < 1:
            raise TrainingError(f"local_epochs is {self.local_epochs}; it must be above zero")
        if self.local_steps < 0:
            raise TrainingError(
                f"local_steps is {self.local_steps}; it must be a number of mini-batches, or 0 for epochs"
            )

    def constant_settings(self) -> dict[str, Value]:
        """Return the settings of a request that are the same in every round."""
        return {"steps": self.local_steps, "epochs": self.local_epochs, "keep_moments": self.keep_moments}

    def passes(self, examples: Sequence[int], batch_size: int) -> float:
        """Return the mean over sites of the passes over their notes."""
        if not self.local_steps:
            return self.rounds * self.participation * self.local_epochs
        drawn = self.rounds * self.participation * self.local_steps * batch_size
        return sum(drawn / count for count in examples) / len(examples)


@dataclass(frozen=True)
class FedAvgConfig(LocalConfig):
    """The settings of FederatedAveraging."""

    server_rate: float = 1.0  # factor of the mean change

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.server_rate > 0:
            raise TrainingError(f"server_rate is {self.server_rate}; it must be above zero")


class FedAvg(Coordinator):
    """The server of Algorithm 1 of the paper."""

    config: FedAvgConfig

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Have every site train locally."""
        return context.gather("train", self.local_settings())

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Update w ← w + Σ n_k/n Δ_k."""
        add(self.shared, mean, rate=self.config.server_rate)

    def local_settings(self) -> dict[str, Value]:
        """Return the settings that ClientUpdate needs."""
        return {**self.settings(), **self.config.constant_settings()}


def train(site: Site, message: Message) -> Message:
    """Run ClientUpdate: train locally and send the change of the shared half."""
    with site.all_or_nothing():
        if site.unit_privacy is not None:
            return site.announce(noisy_update(site, message, site.unit_privacy), weight=1.0, values={})
        update, loss = local_update(site, message)
        return site.announce(update, weight=float(len(site.notes.train)), values={"loss": loss})


def noisy_update(site: Site, message: Message, privacy: UnitPrivacy) -> dict[str, Array]:
    """Receive the shared half and train it by DP-SGD; return its change."""
    site.begin_round(message.value("round", int))
    site.receive(message)
    start = {name: parameter.detach().clone() for name, parameter in site.shared.items()}
    train_with_noise(site, message, privacy)
    return {name: (parameter.detach() - start[name]).cpu().numpy() for name, parameter in site.shared.items()}


def train_with_noise(site: Site, message: Message, privacy: UnitPrivacy) -> None:
    """Train the shared half as it is by DP-SGD, for the local steps of a round; no layer is private."""
    steps, rates, keeps = message.value("steps", int), rates_in(message), message.value("keep_moments", bool)
    if steps != privacy.plan.per_round:
        raise MessageError("policy", "the account of the privacy has another number of steps per round")
    if not keeps:
        site.shared_optimizer.reset()
    for _ in range(steps):
        for name, numbers in site.noisy_sum(privacy).items():
            gradient = np.asarray(numbers * privacy.plan.unit, np.float32)
            site.shared[name].grad = torch.from_numpy(gradient).to(site.shared[name].device)
        site.shared_optimizer.step(rates)
    if not keeps:
        site.shared_optimizer.reset()  # so that no moments are written to disk
    site.round = message.value("round", int)


def local_update(site: Site, message: Message, *, proximal: float = 0.0) -> tuple[dict[str, Array], float]:
    """Receive the shared half and train; return the change of the shared half and the mean loss.

    `proximal` is the strength of a proximal term. If training fails, the caller must restore the site's state.
    """
    site.begin_round(message.value("round", int))
    site.receive(message)
    return local_delta(site, message, proximal=proximal)


def local_delta(
    site: Site, message: Message, *, proximal: float = 0.0, loss: Callable[[Sequence[int]], Tensor] | None = None
) -> tuple[dict[str, Array], float]:
    """Train both halves as they are; return the change of the shared half and the mean loss."""
    start = {name: parameter.detach().clone() for name, parameter in site.shared.items()}
    mean = train_locally(site, message, centre=start if proximal else {}, proximal=proximal, loss=loss)
    return {name: (parameter.detach() - start[name]).cpu().numpy() for name, parameter in site.shared.items()}, mean


def train_locally(
    site: Site,
    message: Message,
    *,
    centre: Mapping[str, Tensor] | None = None,
    proximal: float = 0.0,
    loss: Callable[[Sequence[int]], Tensor] | None = None,
) -> float:
    """Train both halves as they are on the mini-batches of a round; return the mean loss.

    `loss` replaces the task's loss; its argument is the rows of a batch among the site's training examples. `centre` is
    the shared half to which a proximal term of strength `proximal` pulls.
    """
    number, size = message.value("round", int), message.value("batch_size", int)
    steps = _mini_batches(site, message, size)
    # All mini-batches of a round together have the minimum number of sentences; whole epochs have all sentences.
    fewest = -(-site.fewest_sentences // steps) if message.value("steps", int) else 1
    size = max(size, fewest)
    rates, optimizers = rates_in(message), (site.shared_optimizer, site.private_optimizer)
    if not message.value("keep_moments", bool):
        for optimizer in optimizers:
            optimizer.reset()
    losses = train_batches(
        site.model,
        (site.next_rows(size, fewest=fewest, per_round=steps) for _ in range(steps)),
        loss or (lambda rows: site.task.batch_loss([site.notes.train[row] for row in rows])),
        optimizers=optimizers,
        rates=lambda step: rates,
        clip=message.value("clip", float),
        adjust_gradients=(lambda: _add_proximal_gradient(site, centre, proximal)) if centre else None,
    )
    with site.randomness(number):
        mean = sum(losses) / steps
    if not message.value("keep_moments", bool):
        for optimizer in optimizers:
            optimizer.reset()  # so that no moments are written to disk
    site.round = number
    return mean


def add(shared: Mapping[str, Tensor], mean: Mapping[str, Array], *, rate: float = 1.0) -> None:
    """Add a mean change to the shared half."""
    for name, parameter in shared.items():
        parameter += rate * torch.from_numpy(mean[name])


def _mini_batches(site: Site, message: Message, size: int) -> int:
    """Return the number of mini-batches in a round, from the number of steps or of epochs."""
    steps = message.value("steps", int)
    epochs = 1 if steps else message.value("epochs", int)
    if size < 1 or steps < 0 or epochs < 1:
        raise MessageError("value", "a batch size and epochs are at least 1, and a number of steps at least 0")
    return steps or epochs * -(-len(site.notes.train) // size)


def _add_proximal_gradient(site: Site, centre: Mapping[str, Tensor], strength: float) -> None:
    for name, parameter in site.shared.items():
        gradient = strength * (parameter.detach() - centre[name])
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


ALGORITHM = Algorithm(
    name="fedavg",
    description="Federated averaging: sites train locally and send the change of the shared half.",
    config=FedAvgConfig(),
    training=LOCAL_TRAINING,
    server=FedAvg,
    steps={
        "train": SiteStep(train, "trains on some mini-batches of your notes and sends the change of the shared layers")
    },
    shared_layers=SharedLayers.CONFIGURED,
    sends="updates",
    sent_to_sites="Other sites receive only the updated shared layers.",
    comparable_updates=True,
    constant_settings=FedAvgConfig.constant_settings,
    # Whole epochs are not Poisson samples, so only a fixed number of steps has an account.
    noisy_steps=lambda config: NoisySteps(config.local_steps, shared=False) if config.local_steps else None,
)
