from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from wardround.errors import MessageError, TrainingError
from wardround.training.optimizer import HalfOptimizer, Rates, RoundTrainingConfig, clip, finite


def parameter(*numbers: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(numbers))


def test_a_linear_rate_ends_at_one_part_of_its_start() -> None:
    config = RoundTrainingConfig(learning_rate=0.4, output_learning_rate=0.8)
    assert [config.rates(number, 4).below for number in (1, 2, 3, 4)] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert config.rates(3, 4).output == pytest.approx(0.4)
    assert replace(config, schedule="constant").rates(4, 4) == Rates(0.4, 0.8)
    assert replace(config, output_learning_rate=0.0).rates(1, 4).output == 0.4


def test_output_layers_step_at_their_own_rate_and_decay_is_decoupled() -> None:
    parameters = {"below": parameter(1.0), "output": parameter(1.0)}
    for tensor in parameters.values():
        tensor.grad = torch.ones(1)
    HalfOptimizer(parameters, ["output"]).step(Rates(0.1, 0.01, decay=0.5))
    # w ← w (1 − rate · decay) − rate: Adam's first step is the rate itself
    assert parameters["below"].item() == pytest.approx(0.95 - 0.1, abs=1e-6)
    assert parameters["output"].item() == pytest.approx(0.995 - 0.01, abs=1e-6)


def test_a_stepper_goes_on_from_another_ones_memory() -> None:
    one, other = {"w": parameter(1.0)}, {"w": parameter(1.0)}
    first, second = HalfOptimizer(one), HalfOptimizer(other)
    for stepper, held in ((first, one), (second, other)):
        held["w"].grad = torch.tensor([2.0])
        stepper.step(Rates(0.1, 0.1))
    third_parameters = {"w": parameter(other["w"].item())}
    third = HalfOptimizer(third_parameters)
    third.load(second.state())
    for stepper, held in ((first, one), (third, third_parameters)):
        held["w"].grad = torch.tensor([-1.0])
        stepper.step(Rates(0.1, 0.1))
    assert one["w"].item() == third_parameters["w"].item()


def test_a_stepper_without_parameters_does_nothing() -> None:
    stepper = HalfOptimizer({})
    stepper.step(Rates(0.1, 0.1))
    assert stepper.state() == {}


def test_gradients_are_clipped_together() -> None:
    parameters = {"a": parameter(0.0), "b": parameter(0.0)}
    for name, size in (("a", 3.0), ("b", 4.0)):
        parameters[name].grad = torch.tensor([size])
    clip(parameters, 0.0)
    assert parameters["a"].grad is not None and parameters["a"].grad.item() == 3.0
    clip(parameters, 1.0)
    assert [p.grad.item() for p in parameters.values() if p.grad is not None] == pytest.approx([0.6, 0.8], abs=1e-5)
    clip({}, 1.0)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    wrong = parameter(1.0, 2.0)
    wrong.grad = torch.tensor([1.0, number])
    for largest in (0.0, 1.0):
        with pytest.raises(MessageError, match=r"^not-a-number"):
            clip({"a": parameter(1.0), "w": wrong}, largest)
    assert wrong.grad[0].item() == 1.0  # as it was
    with pytest.raises(MessageError, match=r"^not-a-number"):
        finite(torch.tensor(number))


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
def test_settings_that_make_no_sense_are_refused(name: str, wrong: object) -> None:
    with pytest.raises(TrainingError, match=f"^{name} is "):
        replace(RoundTrainingConfig(), **{name: wrong})  # type: ignore[arg-type]


def test_no_round_is_above_the_highest_rates() -> None:
    for config in (
        RoundTrainingConfig(learning_rate=0.4),
        RoundTrainingConfig(learning_rate=0.4, output_learning_rate=0.8),
    ):
        highest = config.highest()
        assert highest == {"rate": 0.4, "output_rate": config.output_learning_rate or 0.4}
        first = config.rates(1, 3)
        assert (first.below, first.output) == (highest["rate"], highest["output_rate"])
