"""The span test (DAGER, Petrov et al., NeurIPS 2024): which inputs of a layer can a gradient have been made from?

The gradient of a linear layer is a sum of products δ xᵀ, one for each token: its rows lie in the span of the inputs x.
While there are fewer tokens than dimensions, an input that was there lies in the span of the rows, and any other does
not. For the first layer, an attacker can compute the input of every token at every position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wardround.privacy.audit.readers import TokenReader

__all__ = ["Passed", "Span", "spans_of", "token_distances"]

Array = np.ndarray[Any, Any]

_CUTS = (1e-4, 1e-3, 1e-2)  # singular values below this share of the largest may be rounding
_SMALLEST = 1e-7  # below this share of the largest they are: float32 has no more digits
_GAP = 10.0  # factor between two singular values that can be the end of the signal
_SKETCH = 64  # random directions with which distances are estimated first
_KEPT = 8_192  # pairs of a token and a position for which they are then computed


@dataclass(frozen=True)
class Span:
    """The directions that do not occur in a gradient: an input that was there has no part in them."""

    absent: Tensor  # [width, directions], orthonormal

    def distances(self, inputs: Tensor) -> Tensor:
        """Return the part of each input [..., width] outside the span, as a share of its length."""
        return _share(inputs @ self.absent, inputs)


@dataclass(frozen=True)
class Passed:
    """The distances of tokens from a span, at their best position, and of the best pairs of token and position."""

    distances: Array  # [candidates]
    tokens: Array  # [pairs]
    places: Array  # [pairs]
    pair_distances: Array  # [pairs]


def spans_of(rows: Array) -> list[Span]:
    """Return possible spans of the inputs behind rows of a gradient; none if the rows fill the space.

    How many singular values are signal is not known, because sums are rounded: the largest gap between two of them is
    one guess, fixed shares of the largest are others.
    """
    _, values, directions = torch.linalg.svd(
        torch.from_numpy(np.ascontiguousarray(rows, np.float64)), full_matrices=True
    )
    width = directions.shape[0]
    values = torch.nn.functional.pad(values, (0, width - len(values)))
    usable = int((values > _SMALLEST * values[0]).sum())
    ratios = values[: usable - 1] / values[1:usable] if usable > 1 else torch.zeros(0)
    ranks = {usable, *(int((values > cut * values[0]).sum()) for cut in _CUTS)}
    ranks |= {int(ratios.argmax()) + 1} if len(ratios) and ratios.max() > _GAP else set()
    return [Span(directions[rank:].T.float().contiguous()) for rank in sorted(ranks) if 0 < rank < width]


def token_distances(reader: TokenReader, spans: Sequence[Span], candidates: Array, *, positions: int) -> list[Passed]:
    """Return, for each span, the distance of each candidate from it at its best position.

    Distances are estimated in a few random directions first, and computed for the pairs of token and position that
    come out lowest.
    """
    generator = torch.Generator().manual_seed(0)
    sketches = [
        span.absent @ torch.randn(span.absent.shape[1], _SKETCH, generator=generator) / _SKETCH**0.5
        if span.absent.shape[1] > _SKETCH
        else span.absent
        for span in spans
    ]
    estimated: list[list[Tensor]] = [[] for _ in spans]
    for _, inputs in reader.inputs(candidates, positions):
        for estimates, sketch in zip(estimated, sketches, strict=True):
            estimates.append(_share(inputs @ sketch, inputs))
    return [
        _exact(reader, span, candidates, torch.cat(estimates)) for span, estimates in zip(spans, estimated, strict=True)
    ]


def _exact(reader: TokenReader, span: Span, candidates: Array, estimates: Tensor) -> Passed:
    """Return exact distances of the pairs whose estimates [candidates, positions] are lowest."""
    lowest = estimates.flatten().topk(min(_KEPT, estimates.numel()), largest=False).indices
    rows, places = lowest // estimates.shape[1], lowest % estimates.shape[1]
    needed = torch.unique(rows)
    inputs = torch.cat([inputs for _, inputs in reader.inputs(candidates[needed.numpy()], estimates.shape[1])])
    exact = span.distances(inputs[torch.searchsorted(needed, rows), places]).numpy().astype(np.float64)
    distances = np.full(len(candidates), np.inf)
    np.minimum.at(distances, rows.numpy(), exact)
    return Passed(distances, candidates[rows.numpy()], places.numpy(), exact)


def _share(part: Tensor, whole: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(whole, dim=-1).clamp(min=torch.finfo(whole.dtype).tiny)
    share: Tensor = torch.linalg.vector_norm(part, dim=-1) / lengths
    return share
