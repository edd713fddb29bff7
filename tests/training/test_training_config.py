from __future__ import annotations

from typing import Any

import pytest

from wardround.errors import TrainingError
from wardround.training.training_config import ENCODER_RECIPE, TRANSFER_RECIPE, WORD_RECIPE, TrainingConfig


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs is 0; it must be above zero"),
        ({"batch_size": -1}, "batch_size is -1; it must be above zero"),
        ({"patience": 0}, "patience is 0; it must be above zero"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0; it must be above zero"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; it can be adam, adamw, sgd"),
        ({"schedule": "cosine"}, "schedule is 'cosine'; it can be constant, linear"),
        ({"warmup": 1.0}, r"warmup is 1\.0; it is a share of the steps, from 0 to below 1"),
        ({"warmup": -0.1}, "warmup is -0.1"),
    ],
)
def test_a_training_that_cannot_start(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        TrainingConfig(**wrong)


def test_the_recipes_of_the_papers() -> None:
    # FedNER, Section 4.1: Adam, N = 64, a rate of 0.001.
    assert (WORD_RECIPE.optimizer, WORD_RECIPE.batch_size, WORD_RECIPE.learning_rate) == ("adam", 64, 1e-3)
    # Lee 2017, Section 3: plain gradient descent, a patience of ten epochs.
    assert (TRANSFER_RECIPE.optimizer, TRANSFER_RECIPE.patience) == ("sgd", 10)
    assert ENCODER_RECIPE.output_learning_rate > ENCODER_RECIPE.learning_rate
