from __future__ import annotations

import pytest
import torch

from wardround.errors import MessageError
from wardround.training.optimizer import ParameterOptimizer, check_finite, clip_gradients
from wardround.training.training_config import Rates


def parameter(*numbers: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(numbers))


def test_output_layers_step_at_their_own_rate_and_decay_is_decoupled() -> None:
    parameters = {"below": parameter(1.0), "output": parameter(1.0)}
    for tensor in parameters.values():
        tensor.grad = torch.ones(1)
    ParameterOptimizer(parameters, ["output"]).step(Rates(0.1, 0.01, decay=0.5))
    # w ← w (1 − rate · decay) − rate: Adam's first step is the rate itself
    assert parameters["below"].item() == pytest.approx(0.95 - 0.1, abs=1e-6)
    assert parameters["output"].item() == pytest.approx(0.995 - 0.01, abs=1e-6)


def test_an_optimizer_continues_from_the_state_of_another() -> None:
    one, other = {"w": parameter(1.0)}, {"w": parameter(1.0)}
    first, second = ParameterOptimizer(one), ParameterOptimizer(other)
    for optimizer, held in ((first, one), (second, other)):
        held["w"].grad = torch.tensor([2.0])
        optimizer.step(Rates(0.1, 0.1))
    third_parameters = {"w": parameter(other["w"].item())}
    third = ParameterOptimizer(third_parameters)
    third.load(second.state())
    for optimizer, held in ((first, one), (third, third_parameters)):
        held["w"].grad = torch.tensor([-1.0])
        optimizer.step(Rates(0.1, 0.1))
    assert one["w"].item() == third_parameters["w"].item()


def test_an_optimizer_without_parameters_does_nothing() -> None:
    optimizer = ParameterOptimizer({})
    optimizer.step(Rates(0.1, 0.1))
    assert optimizer.state() == {}


def test_gradients_are_clipped_together() -> None:
    parameters = {"a": parameter(0.0), "b": parameter(0.0)}
    for name, size in (("a", 3.0), ("b", 4.0)):
        parameters[name].grad = torch.tensor([size])
    clip_gradients(parameters.values(), 0.0)
    assert parameters["a"].grad is not None and parameters["a"].grad.item() == 3.0
    clip_gradients(parameters.values(), 1.0)
    assert [p.grad.item() for p in parameters.values() if p.grad is not None] == pytest.approx([0.6, 0.8], abs=1e-5)
    clip_gradients([], 1.0)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    wrong = parameter(1.0, 2.0)
    wrong.grad = torch.tensor([1.0, number])
    for largest in (0.0, 1.0):
        with pytest.raises(MessageError, match=r"^not-a-number"):
            clip_gradients([parameter(1.0), wrong], largest)
    assert wrong.grad[0].item() == 1.0  # as it was
    with pytest.raises(MessageError, match=r"^not-a-number"):
        check_finite(torch.tensor(number))


def test_the_state_of_an_optimizer_names_adams_moments() -> None:
    def stepped(held: torch.nn.Parameter, optimizer: ParameterOptimizer) -> torch.Tensor:
        held.grad = held.detach() * 2
        optimizer.step(Rates(0.1, 0.1))
        return held.detach().clone()

    first = parameter(1.0, -2.0)
    optimizer = ParameterOptimizer({"w": first}, kind="adam")
    stepped(first, optimizer)
    second = torch.nn.Parameter(first.detach().clone())
    resumed = ParameterOptimizer({"w": second}, kind="adam")
    resumed.load({name: tensor.clone() for name, tensor in optimizer.state().items()})
    assert torch.equal(stepped(first, optimizer), stepped(second, resumed))
    assert set(resumed.state()) == {"0/step", "0/exp_avg", "0/exp_avg_sq"}
    resumed.reset()
    assert resumed.state() == {}


@pytest.mark.parametrize(("kind", "expected"), [("sgd", 0.7), ("adam", 0.9), ("adamw", 0.9)])
def test_the_kinds_of_optimizers(kind: str, expected: float) -> None:
    weight = parameter(1.0)
    weight.grad = torch.tensor([3.0])
    ParameterOptimizer({"w": weight}, kind=kind).step(Rates(0.1, 0.1))
    # Plain descent goes rate times gradient; Adam's first step is the rate itself.
    assert weight.item() == pytest.approx(expected, abs=1e-6)
