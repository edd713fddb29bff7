"""FedNER (Ge et al. 2020), Algorithm 1.

In each round every site computes the gradients of one mini-batch, steps its private half, and gives the gradients of
the shared half; their mean, weighted by the sites' sizes, steps the shared half at the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wardround.algorithms.site import Site, Step
from wardround.algorithms.state_files import copy_into, load_moments, load_tensors, moments, save_tensors, under
from wardround.errors import MessageError, TrainingError
from wardround.federation.federation import Federation, Quorum, Replies, Reply, SiteId, checked
from wardround.federation.message import Array, Message, Value, grouped
from wardround.privacy.aggregator import Aggregator, Place
from wardround.tasks.ner import batch_loss

__all__ = ["STEPS", "Coordinator", "FedNerConfig", "FedNerRound", "batch_share", "gradient"]


@dataclass(frozen=True)
class FedNerConfig:
    """The settings of Algorithm 1."""

    rounds: int = 400
    batch_size: int = 64  # N, summed over the sites
    learning_rate: float = 1e-3  # α
    clip: float = 5.0  # largest norm of the mean gradient; 0 is none

    def __post_init__(self) -> None:
        for name in ("rounds", "batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be above zero")
        if not self.clip >= 0:
            raise TrainingError(f"clip is {self.clip}; it must be a norm, or 0 for none")


@dataclass(frozen=True)
class FedNerRound:
    """One round in figures."""

    number: int
    loss: float  # mean over the sites, weighted as Eq. 2


class Coordinator:
    """The server of Algorithm 1: it holds θ_s and its optimizer, and of the sites nothing but their sizes."""

    def __init__(self, shared: dict[str, Array], config: FedNerConfig) -> None:
        if not shared:
            raise TrainingError("no layer of the model is shared; there is nothing to train together")
        self.config = config
        self.shared = {name: torch.from_numpy(np.array(array)) for name, array in shared.items()}
        self.optimizer = torch.optim.Adam(self.shared.values(), lr=config.learning_rate)
        self.number = 0
        self.sizes: dict[SiteId, int] = {}  # |S_i|

    def rounds(self, federation: Federation, aggregator: Aggregator, quorum: Quorum) -> Iterator[FedNerRound]:
        """Algorithm 1 from the round after the last one done."""
        if aggregator.opens_at is not Place.COORDINATOR:
            raise TrainingError("FedNER steps the shared half at the coordinator, which cannot open these updates")
        while self.number < self.config.rounds:
            loss = _MeanLoss(self.sizes)
            present = quorum.present(self._replies(federation, aggregator))
            combined = aggregator.combine(loss.passing(present))
            self.step(aggregator.open(combined))  # Eq. 2, then θ_s ← θ_s − α ∂L/∂θ_s
            self.number += 1
            yield FedNerRound(self.number, loss.value())

    def _replies(self, federation: Federation, aggregator: Aggregator) -> Replies:
        """The sites' gradients as they arrive, after the absences of sites that never said their size."""
        unknown = [site for site in federation.sites if site not in self.sizes]
        absent = self._meet(federation.ask("describe", Message(), to=unknown)) if unknown else []
        shared = self.arrays()

        def check(reply: Message) -> None:
            aggregator.check(reply, like=shared)
            reply.value("loss", float)

        question = Message(self._settings(sum(self.sizes.values())), grouped("shared", shared))
        known = [site for site in federation.sites if site in self.sizes]
        return chain(absent, checked(federation.ask("gradient", question, to=known), check))

    def _meet(self, replies: Replies) -> list[Reply]:
        """Note the sizes of sites; returns who gave none."""
        absent = []
        for reply in checked(replies, _check_size):
            if reply.message is None:
                absent.append(reply)
            else:
                self.sizes[reply.site] = reply.message.value("sentences", int)
        return absent

    def _settings(self, total: int) -> dict[str, Value]:
        config = self.config
        return {"round": self.number + 1, "total": total, "batch_size": config.batch_size, "rate": self.rate()}

    def rate(self) -> float:
        """The learning rate of the coming round: down to zero at the end."""
        return self.config.learning_rate * (self.config.rounds - self.number) / self.config.rounds

    def step(self, gradient: dict[str, Array]) -> None:
        """Step the shared half by the mean gradient."""
        for name, parameter in self.shared.items():
            parameter.grad = torch.tensor(gradient[name])  # a copy: clipping writes into it
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.shared.values(), self.config.clip)
        self.optimizer.param_groups[0]["lr"] = self.rate()
        self.optimizer.step()

    def arrays(self) -> dict[str, Array]:
        """A copy of the shared half as it is now."""
        return {name: tensor.numpy().copy() for name, tensor in self.shared.items()}

    def save(self, path: Path) -> None:
        """Write all that the coming rounds depend on, whole or not at all."""
        tensors = {f"shared/{name}": tensor for name, tensor in self.shared.items()}
        tensors |= {f"optimizer/{name}": tensor for name, tensor in moments(self.optimizer).items()}
        tensors |= {f"size/{site}": torch.tensor(size) for site, size in self.sizes.items()}
        save_tensors(path, tensors | {"round": torch.tensor(self.number)})

    def restore(self, path: Path) -> None:
        """Go on from a file of a study with the same model and settings."""
        tensors = load_tensors(path)
        copy_into(self.shared, under("shared", tensors))
        load_moments(self.optimizer, under("optimizer", tensors))
        self.sizes = {site: int(size) for site, size in under("size", tensors).items()}
        self.number = int(tensors["round"])


class _MeanLoss:
    """The loss of a round, taken from replies on their way into the sum; none of them is kept."""

    def __init__(self, sizes: dict[SiteId, int]) -> None:
        self._sizes, self._sum, self._weight = sizes, 0.0, 0

    def passing(self, present: Iterable[tuple[SiteId, Message]]) -> Iterator[Message]:
        for site, message in present:
            self._sum += self._sizes[site] * message.value("loss", float)
            self._weight += self._sizes[site]
            yield message

    def value(self) -> float:
        return self._sum / self._weight


def gradient(site: Site, message: Message) -> Message:
    """PlatformUpdate of Algorithm 1: select N_i, step θ_p, return ∂L/∂θ_s."""
    number, rate = message.value("round", int), message.value("rate", float)
    site.check_round(number)
    size = len(site.notes.train)
    share = batch_share(size, total=message.value("total", int), batch_size=message.value("batch_size", int))
    site.receive(message.group("shared"))
    site.model.train()
    site.model.zero_grad(set_to_none=True)
    with site.randomness(number):
        loss = batch_loss(site.model, site.next_batch(share))
        loss.backward()  # type: ignore[no-untyped-call]
    _check_finite(loss, *(_gradient_of(parameter) for parameter in site.private.values()))
    update = {name: _gradient_of(parameter).cpu().numpy() for name, parameter in site.shared.items()}
    sealed = site.aggregator.seal(update, weight=float(size))
    site.step_private(rate)  # last: where anything is refused, the private half is as it was
    site.round = number
    return replace(sealed, values={**sealed.values, "loss": loss.item()})


def batch_share(size: int, *, total: int, batch_size: int) -> int:
    """|N_i| = |S_i| / Σ|S_j| · N, rounded, and one sentence at least."""
    if not 0 < size <= total or batch_size < 1:
        raise MessageError("value", "the sizes of sites and batch do not fit together")
    return max(1, round(size / total * batch_size))


def _gradient_of(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _check_finite(*tensors: Tensor) -> None:
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise MessageError("not-a-number", "the loss or its gradient is not finite; lower learning_rate")


def _check_size(described: Message) -> None:
    if described.value("sentences", int) < 1:
        raise MessageError("empty", "a site without sentences cannot train")


STEPS: dict[str, Step] = {"gradient": gradient}
