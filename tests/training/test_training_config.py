from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wardround.errors import TrainingError
from wardround.training.training_config import (
    Rates,
    RoundTrainingConfig,
    TrainingConfig,
)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs is 0; it must be above zero"),
        ({"batch_size": -1}, "batch_size is -1; it must be above zero"),
        ({"patience": 0}, "patience is 0; it must be above zero"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0; it must be above zero"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; it can be adam, adamw, sgd"),
        ({"schedule": "cosine"}, "schedule is 'cosine'; it can be linear or constant"),
        ({"warmup": 1.0}, r"warmup is 1\.0; it is a share of the steps, from 0 to below 1"),
        ({"warmup": -0.1}, "warmup is -0.1"),
    ],
)
def test_invalid_training_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        TrainingConfig(**wrong)


def test_a_linear_schedule_ends_at_one_fraction_of_the_first_rate() -> None:
    config = RoundTrainingConfig(learning_rate=0.4, output_learning_rate=0.8)
    assert [config.rates(number, 4).base for number in (1, 2, 3, 4)] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert config.rates(3, 4).output == pytest.approx(0.4)
    assert replace(config, schedule="constant").rates(4, 4) == Rates(0.4, 0.8)
    assert replace(config, output_learning_rate=0.0).rates(1, 4).output == 0.4


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("batch_size", 0),
        ("learning_rate", float("nan")),
        ("output_learning_rate", -0.1),
        ("weight_decay", -1.0),
        ("clip", -1.0),
        ("schedule", "cosine"),
    ],
)
def test_invalid_round_training_settings_are_refused(name: str, wrong: object) -> None:
    with pytest.raises(TrainingError, match=f"^{name} is "):
        replace(RoundTrainingConfig(), **{name: wrong})  # type: ignore[arg-type]


def test_the_highest_rates_are_those_of_the_first_round() -> None:
    for config in (
        RoundTrainingConfig(learning_rate=0.4),
        RoundTrainingConfig(learning_rate=0.4, output_learning_rate=0.8),
    ):
        highest = config.highest()
        assert highest == {"rate": 0.4, "output_rate": config.output_learning_rate or 0.4}
        first = config.rates(1, 3)
        assert (first.base, first.output) == (highest["rate"], highest["output_rate"])


@pytest.mark.parametrize(("step", "factor"), [(0, 1 / 3), (1, 2 / 3), (2, 8 / 8), (3, 7 / 8), (6, 4 / 8), (9, 1 / 8)])
def test_the_rate_warms_up_and_then_decays(step: int, factor: float) -> None:
    """Ten steps, two of them warm-up."""
    assert TrainingConfig(warmup=0.2, learning_rate=1.0).rates(step, 10).base == pytest.approx(factor)


@pytest.mark.parametrize(("step", "factor"), [(0, 1 / 3), (1, 2 / 3), (2, 1.0), (9, 1.0)])
def test_the_rate_warms_up_and_then_stays_constant(step: int, factor: float) -> None:
    assert TrainingConfig(warmup=0.2, schedule="constant", learning_rate=1.0).rates(step, 10).base == pytest.approx(
        factor
    )


def test_the_rate_decays_linearly_without_warm_up() -> None:
    assert [TrainingConfig(learning_rate=1.0).rates(step, 4).base for step in range(4)] == [1.0, 0.75, 0.5, 0.25]
