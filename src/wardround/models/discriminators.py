"""Discriminators: layers that predict a sentence's site from a network's states (Wang 2023, Appendix A).

The network is trained to make that prediction fail. Each layer of the encoder has one linear map from a sentence's
state to K scores, one per site: a K × d matrix without bias. Discriminators are trained with the network and shared as
a layer group of their own; the `state_dict` of the network leaves them out. They start at zero, so their effect on the
network grows with what they have learned.

To separate task from site (Peng 2019), one d × d matrix turns a sentence's last state into two halves, and a K × d/2
matrix predicts the site from one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from wardround.models.parameter_split import TrainingOnlyModule

__all__ = ["Discriminators", "SeparatedHalves", "dependence", "entropy", "scaled_gradient"]

_SMALLEST = 1e-12  # probability whose logarithm is taken


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return states.view_as(states)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.factor * gradients[0], None


def scaled_gradient(states: Tensor, factor: float) -> Tensor:
    """Return the states unchanged; multiply their gradient by `factor`, which reverses it if negative (Ganin 2016)."""
    scaled: Tensor = _Scaled.apply(states, factor)  # type: ignore[no-untyped-call]
    return scaled


class Discriminators(TrainingOnlyModule):
    """One discriminator for each layer of an encoder; a site's number is its position in `sites`."""

    def __init__(self, widths: Sequence[int], sites: Sequence[str], *, separated: int = 0) -> None:
        """Build one for each of the layers of `widths`; `separated` is the width of a last state to split in halves."""
        super().__init__()
        self.sites = tuple(sites)
        self._names = tuple(f"layer_{number}" for number in range(len(widths)))
        for name, width in zip(self._names, widths, strict=True):
            self.register_parameter(name, nn.Parameter(torch.zeros(len(self.sites), width)))
        self.halves: SeparatedHalves | None = SeparatedHalves(separated, len(self.sites)) if separated else None

    def loss(self, layers: Sequence[Tensor], site: str, *, strength: float) -> Tensor:
        """Return the mean −log p(site) over layers and sentences, with a reversed gradient below the layers.

        The discriminators learn at full weight, the network at −`strength` (Ganin 2016). Because of the mean over
        layers, a strength means the same for deep and for shallow networks.
        """
        number = self.sites.index(site)
        losses = [
            _site_loss(scaled_gradient(states, -strength), self.get_parameter(name), number)
            for name, states in zip(self._names, layers, strict=True)
        ]
        return torch.stack(losses).mean()

    def separation_loss(self, last: Tensor, site: str, *, strength: float) -> Tensor:
        """Return the loss of the two halves of the last state."""
        assert self.halves is not None, "built without halves"
        return self.halves.loss(last, self.sites.index(site), strength=strength)


class SeparatedHalves(TrainingOnlyModule):
    """Layers that split the last state of a sentence into a half for the task and a half for the site."""

    def __init__(self, width: int, sites: int) -> None:
        super().__init__()
        half = width // 2
        self.turn = nn.Parameter(torch.eye(2 * half, width))  # rows of the task's half, then of the site's
        self.discriminator = nn.Parameter(torch.zeros(sites, half))

    def loss(self, states: Tensor, number: int, *, strength: float) -> Tensor:
        """Return the sum of three losses.

        The site's half predicts the site, neither half predicts the other, and together they keep all of the state.
        The network below learns from the second loss alone, at `strength`: it must not learn to reveal its site.
        """
        task, own = self.split(scaled_gradient(states, strength))
        recognition = _site_loss(self.split(states.detach())[1], self.discriminator, number)
        return recognition + dependence(task, own) + self.skew()

    def split(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return the task's half and the site's, [batch, width / 2] each."""
        task, own = (states @ self.turn.t()).chunk(2, dim=1)
        return task, own

    def skew(self) -> Tensor:
        """Return how far the rows are from orthonormal, ‖W Wᵀ − 1‖² per row; orthonormal rows keep all of a state."""
        rows = self.turn @ self.turn.t()
        return (rows - torch.eye(len(rows), device=rows.device)).square().sum() / len(rows)


def dependence(left: Tensor, right: Tensor) -> Tensor:
    """Return the mean squared correlation of each number of one with each number of the other, over the sentences.

    For jointly normal numbers it is zero exactly if their mutual information is zero.
    """
    one, other = (normalize(part - part.mean(0), dim=0) for part in (left, right))
    return (one.t() @ other).square().mean()


def entropy(probabilities: Tensor) -> Tensor:
    """Return the mean entropy of the rows [rows, classes]; zero without rows."""
    rows = -(probabilities * probabilities.clamp(min=_SMALLEST).log()).sum(1)
    return rows.sum() / max(1, len(rows))


def _site_loss(states: Tensor, weight: Tensor, number: int) -> Tensor:
    """Return the mean −log p of a site's number."""
    return cross_entropy(states.float() @ weight.t(), torch.full((len(states),), number, device=states.device))
