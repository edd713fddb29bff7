"""How one mini-batch steps a model in a study: the settings, the rates of a round, and the optimizer of one half."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from wardround.errors import MessageError, TrainingError
from wardround.training.state_files import load_moments, moments

__all__ = ["HalfOptimizer", "Rates", "RoundTrainingConfig", "clip", "finite"]


@dataclass(frozen=True)
class RoundTrainingConfig:
    """The section [training] of a study."""

    batch_size: int = 64  # FedNER's N, summed over the sites; of every other algorithm, a site's own
    learning_rate: float = 1e-3  # α
    output_learning_rate: float = 0.0  # of the output and CRF layers; 0 is the same as below them
    weight_decay: float = 0.0
    schedule: Literal["linear", "constant"] = "linear"  # linear: down to 1/R of the rate in the last of R rounds
    clip: float = 5.0  # largest norm of a gradient; 0 is none

    def __post_init__(self) -> None:
        for name in ("batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be above zero")
        for name in ("output_learning_rate", "weight_decay", "clip"):
            if not getattr(self, name) >= 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be zero or above")
        if self.schedule not in ("linear", "constant"):
            raise TrainingError(f"schedule is {self.schedule!r}; it can be linear or constant")

    def constant_settings(self) -> dict[str, float]:
        """What a site is asked alike in every round."""
        return {"batch_size": self.batch_size, "clip": self.clip, "decay": self.weight_decay}

    def highest(self) -> dict[str, float]:
        """The rates that no round is above."""
        return {"rate": self.learning_rate, "output_rate": self.output_learning_rate or self.learning_rate}

    def rates(self, number: int, rounds: int) -> Rates:
        """The rates of round `number` of `rounds`, counted from 1."""
        factor = (rounds - number + 1) / rounds if self.schedule == "linear" else 1.0
        output = self.output_learning_rate or self.learning_rate
        return Rates(self.learning_rate * factor, output * factor, self.weight_decay)


@dataclass(frozen=True)
class Rates:
    """How far a step goes: below the output layers, in them, and how much of every parameter decays."""

    below: float
    output: float
    decay: float = 0.0

    def as_values(self) -> dict[str, float]:
        """Return the rates as values of a message."""
        return {"rate": self.below, "output_rate": self.output, "decay": self.decay}


class HalfOptimizer:
    """Adam, its decay decoupled, over one half of a model; with parameters it has none of, it does nothing."""

    def __init__(self, parameters: Mapping[str, Tensor], output: Iterable[str] = ()) -> None:
        self.parameters = parameters
        top = set(output)
        groups = (
            [tensor for name, tensor in parameters.items() if name not in top],
            [tensor for name, tensor in parameters.items() if name in top],
        )
        self._optimizer = torch.optim.AdamW(
            [{"params": group} for group in groups], lr=0.0, weight_decay=0.0, fused=True
        )

    def step(self, rates: Rates) -> None:
        """One step along the gradients that are there."""
        for group, rate in zip(self._optimizer.param_groups, (rates.below, rates.output), strict=True):
            group["lr"], group["weight_decay"] = rate, rates.decay
        self._optimizer.step()

    def forget(self) -> None:
        """Begin anew."""
        self._optimizer.state.clear()

    def state(self) -> dict[str, Tensor]:
        """What it remembers."""
        return moments(self._optimizer)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Remember what another one of the same parameters did."""
        load_moments(self._optimizer, state)


def clip(parameters: Mapping[str, Tensor], largest: float) -> None:
    """Scale the gradients down to a norm of `largest`, 0 leaves them; refuse a norm that is not finite."""
    found = [parameter for parameter in parameters.values() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in found if parameter.grad is not None])
    finite(norm)
    if largest:
        torch.nn.utils.clip_grads_with_norm_(found, largest, norm)


def finite(number: Tensor) -> float:
    """A loss or a norm that makes sense."""
    if not bool(torch.isfinite(number)):
        raise MessageError("not-a-number", "the loss or its gradient is not finite; lower learning_rate")
    return number.item()
