"""What is trained of the outputs of a model that points: the vectors that a decoder's state is compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["PointerOutputs"]

_MIX = 0.5  # of a word's encoder state in what stands for it; the rest is its embedding


class PointerOutputs(nn.Module):
    """They start as the network's own embeddings.

    What they learn counts less, names 1/√d, a pointer, which has d times as many numbers, 1/d: a score is a sum over
    all of them, and a step that suits a prompt would throw it about.
    """

    def __init__(self, width: int, names: int) -> None:
        super().__init__()
        self._scale = width**-0.5
        self.names = nn.Parameter(torch.zeros(names, width))  # of the end and each type, beyond its words
        self.pointer = nn.Linear(width, width)
        nn.init.zeros_(self.pointer.weight)
        nn.init.zeros_(self.pointer.bias)

    @property
    def beyond_names(self) -> Tensor:
        """What the end and the types are, beyond what they are called."""
        learned: Tensor = self._scale * self.names
        return learned

    def words(self, states: Tensor, embedded: Tensor) -> Tensor:
        """What stands for each word: its encoder state and its embedding."""
        mixed: Tensor = _MIX * self._scale**2 * self.pointer(states) + (1 - _MIX) * embedded
        return mixed
