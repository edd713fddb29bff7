from __future__ import annotations

import torch

from wardround.models.padding import reversal, reverse_within_length

MASK = torch.tensor([[True, True, True, False], [True, False, False, False], [True, True, True, True]])


def test_each_sentence_is_reversed_within_its_length() -> None:
    assert reversal(MASK).tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [3, 2, 1, 0]]


def test_reversing_twice_is_nothing() -> None:
    sequence = torch.randn(3, 4, 2)
    turned = reverse_within_length(sequence, MASK)
    assert torch.equal(turned[0, 0], sequence[0, 2])
    assert torch.equal(turned[0, 3], sequence[0, 3])
    assert torch.equal(reverse_within_length(turned, MASK), sequence)
