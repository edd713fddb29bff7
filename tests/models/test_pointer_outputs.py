from __future__ import annotations

import torch

from wardround.models.pointer_outputs import PointerOutputs


def test_they_start_as_embeddings() -> None:
    outputs, embedded = PointerOutputs(4, 3), torch.randn(2, 5, 4)
    assert not outputs.beyond_names.any()
    torch.testing.assert_close(outputs.words(torch.randn(2, 5, 4), embedded), 0.5 * embedded)


def test_what_they_learn_is_scaled_down() -> None:
    """With d = 4 names count a half and a pointer a quarter, of which half is mixed in."""
    outputs = PointerOutputs(4, 1)
    torch.nn.init.constant_(outputs.names, 3.0)
    torch.nn.init.eye_(outputs.pointer.weight)
    torch.nn.init.constant_(outputs.pointer.bias, 1.0)
    assert outputs.beyond_names.tolist() == [[1.5] * 4]
    states, embedded = torch.full((1, 1, 4), 7.0), torch.full((1, 1, 4), 10.0)
    assert outputs.words(states, embedded).tolist() == [[[6.0] * 4]]  # 0.5 · 8 / 4 + 0.5 · 10
