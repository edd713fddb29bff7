"""Sums of clipped gradients, one gradient for each unit, as integers.

A unit is a list of examples: one sentence, or all sentences of a note or of a patient. Its gradient is the sum of the
gradients of its examples. It is scaled down to a norm of at most the clip, converted to integers whose norm is at most
the integer clip, and added. Because integers add exactly, the sum changes by at most the integer clip when one unit is
taken away.

Networks whose trained parameters all belong to linear layers, as with LoRA, compute the gradients of many examples in
one backward pass: for one example, the gradient of a linear layer is the product of what went into the layer and what
came back to it. Other networks run one backward pass for each example, which is slower and always right. Both ways are
compared once for each model, and the fast one is used if they agree.

The networks compute without dropout: noise is enough to regularise, and a mask that one example draws must not depend
on which other examples are in the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wardround.models.parameter_split import LayeredModel
from wardround.tasks.task import Example

__all__ = ["UnitClip", "UnitGradients"]

_HEADROOM = 1 / 256  # of the clip, for float errors of other units that depend on which units are in the batch
_NUMBERS_AT_ONCE = 2**24  # numbers of gradients in memory, so that memory does not grow with the batch
# At once, whatever their gradients take. On a CPU more are no faster: memory grows, and so does the padding.
_MOST_EXAMPLES, _MOST_EXAMPLES_ON_CPU = 256, 16
_AGREEMENT = 0.02  # largest relative difference of the two ways to compute a gradient; TF32 has ten bits
_FINEST = torch.float64  # in which integers add exactly


@dataclass(frozen=True)
class UnitClip:
    """The largest norm of a unit's gradient, as a number and as an integer."""

    clip: float
    integer: int

    def to_integers(self, gradients: Tensor) -> Tensor:
        """Return the gradients [units, numbers], each clipped and as integers with a norm of at most `integer`.

        Rounding to the nearest integer can make a norm larger. The scale leaves room for what it adds on average; a
        gradient that is still too long is truncated towards zero, which makes no norm larger.
        """
        limit = math.floor(self.integer * (1 - _HEADROOM))
        room = max(limit**2 - gradients.shape[1] / 12, 0.0)
        norms = torch.linalg.vector_norm(gradients, dim=1, dtype=_FINEST)
        scale = math.sqrt(room) / torch.clamp(norms, min=self.clip)
        scaled = torch.where(torch.isfinite(norms)[:, None], gradients.to(_FINEST) * scale[:, None], 0.0)
        rounded = scaled.round()
        too_long = rounded.square().sum(dim=1) > limit**2
        return torch.where(too_long[:, None], scaled.trunc(), rounded)


class UnitGradients:
    """Computes sums of clipped gradients of one model."""

    def __init__(
        self, model: LayeredModel, parameters: Mapping[str, Tensor], loss: Callable[[Sequence[Example]], Tensor]
    ) -> None:
        """Use the gradients of `parameters` in `loss`, which is the mean over the examples of a batch."""
        self._model, self._loss = model, loss
        self._parameters = dict(parameters)
        self._numbers = sum(parameter.numel() for parameter in parameters.values())
        self._layers = _linear_layers(model, self._parameters)
        self._compared = False

    def clipped_sum(self, units: Sequence[Sequence[Example]], clip: UnitClip) -> dict[str, np.ndarray[Any, Any]]:
        """Return the sum over the units as int64 arrays by name of the parameter; zeros without a unit."""
        device = self._model.device
        most = _MOST_EXAMPLES_ON_CPU if device.type == "cpu" else _MOST_EXAMPLES
        at_once = max(1, min(most, _NUMBERS_AT_ONCE // max(self._numbers, 1)))
        total = torch.zeros(self._numbers, dtype=_FINEST, device=device)
        with _without_dropout(self._model):
            for start in range(0, len(units), at_once):
                chunk = units[start : start + at_once]
                sums = torch.zeros(len(chunk), self._numbers, device=device)
                finite = torch.ones(len(chunk), dtype=torch.bool, device=device)
                examples = [(place, example) for place, unit in enumerate(chunk) for example in unit]
                for first in range(0, len(examples), at_once):
                    part = examples[first : first + at_once]
                    places = torch.tensor([place for place, _ in part], device=device)
                    # A product, because `index_add_` adds in any order on a GPU.
                    member = (torch.arange(len(chunk), device=device)[:, None] == places[None]).float()
                    each = self._each([example for _, example in part])
                    # A gradient that is not finite adds nothing; to say so would reveal something about its unit.
                    usable = torch.isfinite(each).all(dim=1)
                    finite[places[~usable]] = False
                    sums += member @ torch.where(usable[:, None], each, 0.0)
                total += clip.to_integers(torch.where(finite[:, None], sums, 0.0)).sum(dim=0)
        found, begin = dict[str, np.ndarray[Any, Any]](), 0
        whole = total.cpu().numpy().astype(np.int64)
        for name, parameter in self._parameters.items():
            found[name] = whole[begin : begin + parameter.numel()].reshape(parameter.shape)
            begin += parameter.numel()
        return found

    def _each(self, examples: Sequence[Example]) -> Tensor:
        """Return the gradient of each example, [examples, numbers]."""
        if self._layers and not self._compared and len(examples) > 1:
            few = examples[:3]
            slow, fast = self._one_by_one(few), self._at_once(few)
            self._compared = True
            if fast is None or not bool((slow - fast).norm() <= _AGREEMENT * slow.norm()):
                self._layers = {}
        if self._layers and (found := self._at_once(examples)) is not None:
            return found
        return self._one_by_one(examples)

    def _one_by_one(self, examples: Sequence[Example]) -> Tensor:
        rows = []
        for example in examples:
            value = self._loss([example])
            found = (
                torch.autograd.grad(value, list(self._parameters.values()), allow_unused=True)
                if value.requires_grad
                else [None] * len(self._parameters)
            )
            parts = [
                torch.zeros(parameter.numel(), device=self._model.device) if part is None else part.float().flatten()
                for part, parameter in zip(found, self._parameters.values(), strict=True)
            ]
            rows.append(torch.cat(parts))
        return torch.stack(rows)

    def _at_once(self, examples: Sequence[Example]) -> Tensor | None:
        """Return the gradients from one backward pass; None if a layer did not see one row for each example."""
        count, calls = len(examples), list[_Call]()
        with _recorded(self._layers, calls):
            value = self._loss(examples) * count  # the sum: no gradient depends on how many examples there are
            if not calls or not value.requires_grad or any(len(call.input) != count for call in calls):
                return None
            backs = torch.autograd.grad(value, [call.output for call in calls], allow_unused=True)
        parts = {
            name: torch.zeros(count, parameter.numel(), device=self._model.device)
            for name, parameter in self._parameters.items()
        }
        for call, back in zip(calls, backs, strict=True):
            if back is None:
                continue
            came, went = back.reshape(count, -1, back.shape[-1]), call.input.reshape(count, -1, call.input.shape[-1])
            if call.weight:
                parts[call.weight] += torch.einsum("nto,nti->noi", came, went).flatten(1)
            if call.bias:
                parts[call.bias] += came.sum(dim=1)
        return torch.cat(list(parts.values()), dim=1)


@dataclass(frozen=True)
class _Call:
    """What went into a linear layer and came out, and which parameters of it are trained."""

    weight: str
    bias: str
    input: Tensor
    output: Tensor


def _linear_layers(model: LayeredModel, parameters: Mapping[str, Tensor]) -> dict[nn.Linear, tuple[str, str]]:
    """Return the linear layers with the names of their trained weight and bias; none if there are other layers."""
    found: dict[nn.Linear, tuple[str, str]] = {}
    covered = set[str]()
    for path, module in model.named_modules():
        if type(module) is nn.Linear:
            weight, bias = (name if name in parameters else "" for name in (f"{path}.weight", f"{path}.bias"))
            if weight or bias:
                found[module] = weight, bias
                covered |= {weight, bias}
    return found if parameters.keys() <= covered else {}


@contextmanager
def _recorded(layers: Mapping[nn.Linear, tuple[str, str]], calls: list[_Call]) -> Iterator[None]:
    """Record every call of the layers while the context is open."""

    def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        if output.requires_grad:
            calls.append(_Call(*layers[layer], inputs[0].detach(), output))

    handles = [layer.register_forward_hook(record) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _without_dropout(model: LayeredModel) -> Iterator[None]:
    """Put the model in evaluation mode, but for recurrent layers, which cuDNN differentiates in training mode only."""
    was_training = model.training
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.RNNBase) and not module.dropout:
            module.train()
    try:
        yield
    finally:
        model.train(was_training)
