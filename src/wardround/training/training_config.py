"""How a model is trained at one site, and the recipes that go with each family of models."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wardround.errors import TrainingError

__all__ = ["ADAPTER_RECIPE", "ENCODER_RECIPE", "TRANSFER_RECIPE", "WORD_RECIPE", "TrainingConfig"]

_OPTIMIZERS = ("adam", "adamw", "sgd")
_SCHEDULES = ("constant", "linear")


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of one training."""

    epochs: int = 30
    batch_size: int = 64  # N, FedNER Alg. 1
    optimizer: str = "adam"  # adam | adamw | sgd
    learning_rate: float = 1e-3  # α, FedNER Alg. 1
    output_learning_rate: float = 0.0  # of the output and CRF layers; 0 is the same as below them
    weight_decay: float = 0.0
    schedule: str = "linear"  # constant | linear: down to zero at the last step
    warmup: float = 0.0  # share of all steps in which the rate rises from zero
    clip: float = 5.0  # largest norm of a step's gradient; 0 is none
    patience: int = 10  # epochs without a better development F1 before stopping
    mixed_precision: bool = False  # bfloat16 on a GPU; ignored on a CPU
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "learning_rate"):
            if getattr(self, name) <= 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be above zero")
        if self.optimizer not in _OPTIMIZERS:
            raise TrainingError(f"optimizer is {self.optimizer!r}; it can be {', '.join(_OPTIMIZERS)}")
        if self.schedule not in _SCHEDULES:
            raise TrainingError(f"schedule is {self.schedule!r}; it can be {', '.join(_SCHEDULES)}")
        if not 0.0 <= self.warmup < 1.0:
            raise TrainingError(f"warmup is {self.warmup}; it is a share of the steps, from 0 to below 1")


WORD_RECIPE = TrainingConfig()
ENCODER_RECIPE = TrainingConfig(
    epochs=15,
    batch_size=32,
    optimizer="adamw",
    learning_rate=1e-4,
    output_learning_rate=1e-3,
    weight_decay=0.01,
    warmup=0.1,
    clip=1.0,
    patience=5,
    mixed_precision=True,
)
# What is trained beside a frozen network starts from nothing: it takes rates that would ruin a pretrained one.
ADAPTER_RECIPE = replace(ENCODER_RECIPE, batch_size=16, learning_rate=5e-3, output_learning_rate=5e-3)
# Lee 2017, Section 3: stochastic gradient descent, early stopping with a patience of 10 epochs.
TRANSFER_RECIPE = TrainingConfig(
    epochs=100, batch_size=8, optimizer="sgd", learning_rate=0.1, schedule="constant", patience=10
)
