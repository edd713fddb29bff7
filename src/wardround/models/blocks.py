"""The layers of taggers. All are exact under padding: a sentence gives the same numbers in any batch.

A mask [batch, length] is True for words; padding is at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from wardround.models.vocabulary import CHARACTERS, PADDING

__all__ = ["BiLstm", "CharacterCnn", "CharacterLstm", "ScalarMix", "WordCnn", "reversal", "reverse_within_length"]


def reversal(mask: Tensor) -> Tensor:
    """Return positions [batch, length] that reverse each sentence within its length and leave padding in place."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)


def reverse_within_length(sequence: Tensor, mask: Tensor) -> Tensor:
    """Return each row of `sequence` [batch, length, width] reversed within its own length."""
    return sequence.gather(1, reversal(mask)[:, :, None].expand_as(sequence))


class CharacterCnn(nn.Module):
    """A layer from characters to a word's vector: embedding, convolution, maximum (FedNER, Section 3.1)."""

    def __init__(self, *, dimension: int, filters: int, kernel: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, dimension, padding_idx=PADDING)
        self.convolution = nn.Conv1d(dimension, filters, kernel, padding=kernel // 2)
        self.width = filters

    def forward(self, characters: Tensor) -> Tensor:
        """Map [words, characters] to [words, filters]."""
        present = characters != PADDING
        features = self.convolution(self.embedding(characters).transpose(1, 2)).relu()
        # After ReLU nothing is below zero, so a zeroed position never changes the maximum.
        pooled: Tensor = (features * present[:, None]).amax(2)
        return pooled


class CharacterLstm(nn.Module):
    """A layer from characters to a word's vector: the last states of a bidirectional LSTM (Lee 2017, Section 3)."""

    def __init__(self, *, dimension: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, dimension, padding_idx=PADDING)
        self.forwards = nn.LSTM(dimension, hidden, batch_first=True)
        self.backwards = nn.LSTM(dimension, hidden, batch_first=True)
        self.width = 2 * hidden

    def forward(self, characters: Tensor) -> Tensor:
        """Map [words, characters] to [words, 2 * hidden]."""
        present = characters != PADDING
        embedded = self.embedding(characters)
        last = (present.sum(1) - 1).clamp(min=0)
        rows = torch.arange(len(last), device=last.device)
        ahead = self.forwards(embedded)[0][rows, last]
        back = self.backwards(reverse_within_length(embedded, present))[0][rows, last]
        return torch.cat([ahead, back], dim=1)


class ScalarMix(nn.Module):
    """A learned weighted mean of an encoder's layers, scaled (Peters 2018)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """Mix layers of [batch, words, width] each into one."""
        shares = self.weights.softmax(0).unbind()
        mixed = sum(share * layer for share, layer in zip(shares, layers, strict=True))
        return self.scale * torch.as_tensor(mixed)


class WordCnn(nn.Module):
    """A convolution over words, for local context."""

    def __init__(self, width: int, *, filters: int, kernel: int = 3) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, filters, kernel, padding=kernel // 2)
        self.width = filters

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Map [batch, words, width] to [batch, words, filters]."""
        features: Tensor = self.convolution((words * mask[:, :, None]).transpose(1, 2))
        return features.transpose(1, 2).relu()


class BiLstm(nn.Module):
    """One or more bidirectional LSTM layers.

    The two directions are separate unpacked LSTMs; the backward one reads sentences reversed within their length. This
    gives the same numbers as PyTorch's packed bidirectional LSTM in about half the time on a CPU.
    """

    def __init__(self, width: int, *, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [width] + [2 * hidden] * (layers - 1)
        self.forwards = nn.ModuleList(nn.LSTM(w, hidden, batch_first=True) for w in widths)
        self.backwards = nn.ModuleList(nn.LSTM(w, hidden, batch_first=True) for w in widths)
        self.between = nn.Dropout(dropout)
        self.width = 2 * hidden

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Map [batch, words, width] to [batch, words, 2 * hidden]."""
        for number, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            states = self.between(words) if number else words
            ahead = forwards(states)[0]
            back = reverse_within_length(backwards(reverse_within_length(states, mask))[0], mask)
            words = torch.cat([ahead, back], dim=2)
        return words
