"""The optimizer of some parameters of a model, gradient clipping, and the check that numbers stay finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from wardround.errors import MessageError
from wardround.training.training_config import Rates

__all__ = ["ParameterOptimizer", "check_finite", "clip_gradients"]


class ParameterOptimizer:
    """An optimizer of named parameters, with a learning rate of its own for the output layers.

    The default is AdamW. Without parameters it does nothing.
    """

    def __init__(self, parameters: Mapping[str, Tensor], output: Iterable[str] = (), *, kind: str = "adamw") -> None:
        """Optimize `parameters`, of which those named in `output` belong to output layers."""
        self.parameters = parameters
        top = set(output)
        groups = [{"params": [tensor for name, tensor in parameters.items() if name not in top]}]
        if top & parameters.keys():
            groups.append({"params": [tensor for name, tensor in parameters.items() if name in top]})
        self._optimizer: torch.optim.Optimizer
        if kind == "sgd":
            self._optimizer = torch.optim.SGD(groups, lr=0.0)
        elif kind == "adam":
            self._optimizer = torch.optim.Adam(groups, lr=0.0, weight_decay=0.0, fused=True)
        else:
            self._optimizer = torch.optim.AdamW(groups, lr=0.0, weight_decay=0.0, fused=True)

    def step(self, rates: Rates) -> None:
        """Update the parameters along their current gradients."""
        # Without output layers there is one group only.
        for group, rate in zip(self._optimizer.param_groups, (rates.base, rates.output), strict=False):
            group["lr"], group["weight_decay"] = rate, rates.decay
        self._optimizer.step()

    def reset(self) -> None:
        """Drop the optimizer's state, such as Adam's moments."""
        self._optimizer.state.clear()

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state as `<number of the parameter>/<name>`."""
        state = self._optimizer.state_dict()["state"]
        return {f"{number}/{name}": tensor for number, parts in state.items() for name, tensor in parts.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the `state()` of an optimizer of the same parameters."""
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            number, _, name = key.partition("/")
            state.setdefault(int(number), {})[name] = tensor
        self._optimizer.load_state_dict({"state": state, "param_groups": self._optimizer.state_dict()["param_groups"]})


def clip_gradients(parameters: Iterable[Tensor], largest: float) -> None:
    """Scale the gradients down to a norm of `largest`; 0 leaves them. Raise if the norm is not finite."""
    found = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in found if parameter.grad is not None])
    check_finite(norm)
    if largest:
        torch.nn.utils.clip_grads_with_norm_(found, largest, norm)


def check_finite(number: Tensor) -> float:
    """Return a loss or a norm as a number; raise if it is infinite or NaN."""
    if not bool(torch.isfinite(number)):
        raise MessageError("not-a-number", "the loss or its gradient is not finite; lower learning_rate")
    return number.item()
