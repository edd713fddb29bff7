"""The settings of a training: at one site, and inside the rounds of a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wardround.errors import TrainingError

__all__ = [
    "OptimizationConfig",
    "Rates",
    "RoundTrainingConfig",
    "TrainingConfig",
]

_OPTIMIZERS = ("adam", "adamw", "sgd")


@dataclass(frozen=True)
class Rates:
    """The learning rates and the weight decay of one step."""

    base: float  # learning rate of all layers below the output layers
    output: float  # learning rate of the output layers
    decay: float = 0.0  # weight decay of every parameter

    def as_values(self) -> dict[str, float]:
        """Return the rates as values of a message."""
        return {"rate": self.base, "output_rate": self.output, "decay": self.decay}


@dataclass(frozen=True)
class OptimizationConfig:
    """The settings that every training has."""

    batch_size: int = 64  # sentences behind one optimizer step
    learning_rate: float = 1e-3  # α, FedNER Alg. 1
    output_learning_rate: float = 0.0  # of the output and CRF layers; 0 means the same as learning_rate
    weight_decay: float = 0.0
    schedule: Literal["linear", "constant"] = "linear"
    clip: float = 5.0  # largest norm of a gradient; 0 does not clip

    def __post_init__(self) -> None:
        for name in ("batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be above zero")
        for name in ("output_learning_rate", "weight_decay", "clip"):
            if not getattr(self, name) >= 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be zero or above")
        if self.schedule not in ("linear", "constant"):
            raise TrainingError(f"schedule is {self.schedule!r}; it can be linear or constant")

    def scaled_rates(self, factor: float) -> Rates:
        """Return the configured learning rates times `factor`, with the weight decay."""
        output = self.output_learning_rate or self.learning_rate
        return Rates(self.learning_rate * factor, output * factor, self.weight_decay)


@dataclass(frozen=True)
class TrainingConfig(OptimizationConfig):
    """The settings of a training at one site; a linear schedule decreases the rate to zero at the last step."""

    epochs: int = 30
    optimizer: str = "adam"  # adam | adamw | sgd
    warmup: float = 0.0  # share of all steps in which the rate rises from zero
    patience: int = 10  # epochs without a better development F1 before training stops
    mixed_precision: bool = False  # bfloat16 on a GPU; ignored on a CPU
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epochs", "patience"):
            if getattr(self, name) <= 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be above zero")
        if self.optimizer not in _OPTIMIZERS:
            raise TrainingError(f"optimizer is {self.optimizer!r}; it can be {', '.join(_OPTIMIZERS)}")
        if not 0.0 <= self.warmup < 1.0:
            raise TrainingError(f"warmup is {self.warmup}; it is a share of the steps, from 0 to below 1")

    def rates(self, step: int, steps: int) -> Rates:
        """Return the rates of `step` of `steps`, counted from 0: warm-up, then constant or linear decay."""
        warm = self.warmup * steps
        if step < warm:
            return self.scaled_rates((step + 1) / (warm + 1))
        return self.scaled_rates(1.0 if self.schedule == "constant" else (steps - step) / max(steps - warm, 1))


@dataclass(frozen=True)
class RoundTrainingConfig(OptimizationConfig):
    """The section [training] of a study; a linear schedule decreases the rate to 1/R of it in the last of R rounds.

    `batch_size` is the number of sentences, or pairs, behind one optimizer step. Under FedNER all sites take a step
    together, so it is divided among them (N in Algorithm 1); under other algorithms each site takes its own steps.
    """

    def constant_settings(self) -> dict[str, float]:
        """Return the settings that are the same in every request to a site."""
        return {"batch_size": self.batch_size, "clip": self.clip, "decay": self.weight_decay}

    def highest(self) -> dict[str, float]:
        """Return the largest rates of any round."""
        return {"rate": self.learning_rate, "output_rate": self.output_learning_rate or self.learning_rate}

    def rates(self, number: int, rounds: int) -> Rates:
        """Return the rates of round `number` of `rounds`, counted from 1."""
        return self.scaled_rates((rounds - number + 1) / rounds if self.schedule == "linear" else 1.0)
