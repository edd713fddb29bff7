"""Sentences of unequal length in one tensor: a mask [batch, length] is True for words, and padding is at the end."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["reversal", "reverse_within_length"]


def reversal(mask: Tensor) -> Tensor:
    """Positions [batch, length] that reverse each sentence within its length and leave padding in place."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)


def reverse_within_length(sequence: Tensor, mask: Tensor) -> Tensor:
    """Each row of `sequence` [batch, length, width] reversed within its own length."""
    return sequence.gather(1, reversal(mask)[:, :, None].expand_as(sequence))
