"""What tells sites apart by the states of a network that is trained to let nobody do so (Wang 2023, Appendix A).

For each layer of the encoder one linear map from a sentence's state to K scores, one a site: a matrix K × d, and no
bias. They train with the network and are shared as a layer group of their own; when training ends they have served, so
the state of a network does not hold them. They start at zero: what they push down grows with what they have learned.

Beside them, where task and site are to be parted (Peng 2019), one matrix d × d turns a sentence's last state into two
halves, and one of K × d/2 tells sites apart by a half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

__all__ = ["Discriminators", "Halves", "Watched", "dependence", "entropy", "scaled_gradient"]

_LEAST = 1e-12  # of a probability whose logarithm is taken


@dataclass
class Watched:
    """What a forward pass leaves for whoever looks on; a model fills it bottom to top."""

    predictions: bool = False  # whether those of taught mentions are asked for
    layers: list[Tensor] = field(default_factory=list)  # [batch, width] each: a sentence in a layer of the encoder
    decoded: Tensor | None = None  # [batch, width]: a sentence in the last layer of a decoder, where there is one
    predicted: Tensor | None = None  # [words, classes]: p at every word, or output, of a taught mention

    @property
    def last(self) -> Tensor:
        """A sentence in the last layer below the outputs."""
        return self.layers[-1] if self.decoded is None else self.decoded

    def add(self, states: Tensor, mask: Tensor) -> None:
        """A layer of the encoder: states [batch, words, width], words where `mask` is true."""
        self.layers.append(_mean(states, mask))

    def add_decoded(self, states: Tensor, mask: Tensor) -> None:
        """The last layer of a decoder."""
        self.decoded = _mean(states, mask)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return states.view_as(states)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.factor * gradients[0], None


def scaled_gradient(states: Tensor, factor: float) -> Tensor:
    """The states as they are; their gradient comes back times `factor`, below zero turned round (Ganin 2016)."""
    scaled: Tensor = _Scaled.apply(states, factor)  # type: ignore[no-untyped-call]
    return scaled


class _Aside(nn.Module):
    """Serves training alone: the state of a model that it is part of does not hold it."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Nothing."""

    def _load_from_state_dict(self, *given: Any) -> None:
        """Nothing: it stays as it is."""


class Discriminators(_Aside):
    """One for each layer of an encoder; a site's number is its place among `sites`."""

    def __init__(self, widths: Sequence[int], sites: Sequence[str], *, parted: int = 0) -> None:
        """Of layers `widths` wide; with `parted`, the width of a last state that is to be split in halves too."""
        super().__init__()
        self.sites = tuple(sites)
        self._names = tuple(f"layer_{number}" for number in range(len(widths)))
        for name, width in zip(self._names, widths, strict=True):
            self.register_parameter(name, nn.Parameter(torch.zeros(len(self.sites), width)))
        self.halves: Halves | None = Halves(parted, len(self.sites)) if parted else None

    def loss(self, layers: Sequence[Tensor], site: str, *, strength: float) -> Tensor:
        """Mean −log p(site) over layers and sentences; what is below the layers is pushed the other way.

        The discriminators learn at full weight, the network at −`strength` (Ganin 2016). The mean over layers lets a
        strength mean the same to deep and to shallow networks.
        """
        number = self.sites.index(site)
        losses = [
            _surprise(scaled_gradient(states, -strength), self.get_parameter(name), number)
            for name, states in zip(self._names, layers, strict=True)
        ]
        return torch.stack(losses).mean()

    def parting_loss(self, last: Tensor, site: str, *, strength: float) -> Tensor:
        """That of the halves."""
        assert self.halves is not None, "built without halves"
        return self.halves.loss(last, self.sites.index(site), strength=strength)


class Halves(_Aside):
    """Parts the last state of a sentence into what is of the task and what is of the site."""

    def __init__(self, width: int, sites: int) -> None:
        super().__init__()
        half = width // 2
        self.turn = nn.Parameter(torch.eye(2 * half, width))  # rows of the task's half, then of the site's
        self.discriminator = nn.Parameter(torch.zeros(sites, half))

    def loss(self, states: Tensor, number: int, *, strength: float) -> Tensor:
        """Three parts: the site's half tells the site, neither half foretells the other, and the two lose nothing.

        The network below learns from the second alone, at `strength`: to tell its site is what it is to unlearn.
        """
        task, own = self.part(scaled_gradient(states, strength))
        told = _surprise(self.part(states.detach())[1], self.discriminator, number)
        return told + dependence(task, own) + self.skew()

    def part(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The task's half and the site's, [batch, width / 2] each."""
        task, own = (states @ self.turn.t()).chunk(2, dim=1)
        return task, own

    def skew(self) -> Tensor:
        """How far the rows are from orthonormal, whose halves hold all of a state: ‖W Wᵀ − 1‖² a row."""
        rows = self.turn @ self.turn.t()
        return (rows - torch.eye(len(rows), device=rows.device)).square().sum() / len(rows)


def dependence(left: Tensor, right: Tensor) -> Tensor:
    """Mean squared correlation of every number of the one with every number of the other, over the sentences.

    Of numbers that are jointly normal it is zero where their mutual information is.
    """
    one, other = (normalize(part - part.mean(0), dim=0) for part in (left, right))
    return (one.t() @ other).square().mean()


def entropy(probabilities: Tensor) -> Tensor:
    """Mean over the rows [rows, classes]; of no rows it is zero."""
    rows = -(probabilities * probabilities.clamp(min=_LEAST).log()).sum(1)
    return rows.sum() / max(1, len(rows))


def _surprise(states: Tensor, weight: Tensor, number: int) -> Tensor:
    """Mean −log p of a site's number."""
    return cross_entropy(states.float() @ weight.t(), torch.full((len(states),), number, device=states.device))


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    counted = mask[:, :, None].to(states.dtype)
    return (states * counted).sum(1) / counted.sum(1).clamp(min=1.0)
