from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.tiny import SENTENCES, quick_tagger, word_tagger
from torch import Tensor, nn

from wardround.models.parameter_split import LayeredModel, ParameterSplit
from wardround.tasks.ner import NerTask, TaggedSentence
from wardround.training.unit_gradients import UnitClip, UnitGradients


class Linear(LayeredModel):
    """Two linear layers; an example is a list of rows of three numbers."""

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2, bias=False)
        self.dropout = nn.Dropout(0.5)
        self.first.weight.requires_grad_(not frozen)
        self.split = ParameterSplit.sharing(("all",), ("all",))

    @property
    def groups(self) -> tuple[str, ...]:
        return ("all",)

    def group_of(self, parameter: str) -> str:
        return "all"

    def mean_loss(self, batch: Sequence[Sequence[Sequence[float]]]) -> Tensor:
        longest = max(map(len, batch))
        rows = torch.tensor([[*example, *[[0.0] * 3] * (longest - len(example))] for example in batch])
        real = torch.tensor([[1.0] * len(example) + [0.0] * (longest - len(example)) for example in batch])
        out = self.second(self.dropout(torch.tanh(self.first(rows))))
        return ((out.square().sum(2) * real).sum(1)).mean()


EXAMPLES = [[[1.0, 2.0, 3.0]], [[0.5, -1.0, 0.0], [2.0, 2.0, -2.0]], [[-1.0, 0.0, 4.0]] * 3, [[0.1, 0.1, 0.1]]]
CLIP = UnitClip(0.5, 10_000)


def gradients(model: Linear, *, slow: bool = False) -> UnitGradients:
    found = UnitGradients(model, model.shared_parameters(), model.mean_loss)
    if slow:
        found._layers = {}
    return found


def flat(sums: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([array.ravel() for array in sums.values()])


@pytest.mark.parametrize("frozen", [False, True])
def test_one_backward_pass_finds_what_one_for_each_example_finds(frozen: bool) -> None:
    model = Linear(frozen=frozen)
    quick, slow = gradients(model), gradients(model, slow=True)
    units = [[example] for example in EXAMPLES]
    fast = quick.clipped_sum(units, CLIP)
    assert quick._layers, "linear layers are found"
    assert np.abs(flat(fast) - flat(slow.clipped_sum(units, CLIP))).max() <= len(EXAMPLES)
    assert list(fast) == list(model.shared_parameters())
    assert fast["second.weight"].shape == (2, 4)


def test_a_unit_is_clipped_as_a_whole_and_a_small_gradient_is_not_scaled() -> None:
    model = Linear()
    found = gradients(model)
    (whole,) = (flat(found.clipped_sum([EXAMPLES[:3]], CLIP)),)
    parts = [flat(found.clipped_sum([[example]], CLIP)) for example in EXAMPLES[:3]]
    limit = 10_000 * (1 - 1 / 256)
    assert 0.999 * limit < np.linalg.norm(whole) <= limit
    assert np.linalg.norm(sum(parts)) > 1.5 * limit
    wide = UnitClip(1000.0, 10_000)  # no gradient is so long
    value = model.eval().mean_loss([EXAMPLES[0]])
    value.backward()
    assert model.first.bias.grad is not None
    expected = model.first.bias.grad.numpy() * 10_000 / 1000.0
    model.train()
    assert np.abs(found.clipped_sum([[EXAMPLES[0]]], wide)["first.bias"] - expected).max() <= 0.01 * limit
    # Dropout was off in both; the mode of the model is as before.
    assert model.training


def test_no_unit_gives_zeros_and_a_gradient_that_is_not_finite_adds_nothing() -> None:
    model = Linear()
    found = gradients(model)
    assert not flat(found.clipped_sum([], CLIP)).any()
    broken = [[math.inf, 1.0, 1.0]]
    assert not flat(found.clipped_sum([[broken]], CLIP)).any()
    together = found.clipped_sum([[broken], [EXAMPLES[0]]], CLIP)
    assert (flat(together) == flat(found.clipped_sum([[EXAMPLES[0]]], CLIP))).all()


@given(
    numbers=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=300),
    clip=st.floats(0.01, 100),
    integer=st.integers(20, 100_000),
)
def test_integers_never_have_a_norm_above_the_integer_clip(numbers: list[float], clip: float, integer: int) -> None:
    rounded = UnitClip(clip, integer).to_integers(torch.tensor([numbers]))
    assert bool((rounded == rounded.round()).all())
    assert sum(int(number) ** 2 for number in rounded[0].tolist()) <= integer**2


def test_taking_one_unit_away_changes_the_sum_by_at_most_the_clip() -> None:
    model = Linear()
    found = gradients(model)
    units = [[example] for example in EXAMPLES]
    whole = flat(found.clipped_sum(units, CLIP))
    for left_out in range(len(units)):
        rest = flat(found.clipped_sum(units[:left_out] + units[left_out + 1 :], CLIP))
        assert np.linalg.norm(whole - rest) <= CLIP.integer


def sentences(count: int) -> list[TaggedSentence]:
    words = [SENTENCES[number % len(SENTENCES)] for number in range(count)]
    return [TaggedSentence(own, tuple("B-ADE" if word == "rash" else "O" for word in own)) for own in words]


@pytest.mark.parametrize("lstm", [0, 8])
def test_word_networks_use_one_backward_pass_for_each_sentence(lstm: int) -> None:
    model = word_tagger(lstm=lstm) if lstm else quick_tagger()
    task = NerTask(model)
    found = UnitGradients(model, {n: p for n, p in model.named_parameters() if p.requires_grad}, task.batch_loss)
    assert not found._layers
    together = flat(found.clipped_sum([[own] for own in sentences(4)], CLIP))
    apart = sum(flat(found.clipped_sum([[own]], CLIP)) for own in sentences(4))
    assert (together == apart).all()


def test_a_network_whose_loss_mixes_examples_falls_back_to_single_ones() -> None:
    class Mixing(Linear):
        def mean_loss(self, batch: Sequence[Sequence[Sequence[float]]]) -> Tensor:
            return super().mean_loss(batch) / len(batch)  # not the mean over the examples

    model = Mixing()
    found = gradients(model)
    together = flat(found.clipped_sum([[example] for example in EXAMPLES], CLIP))
    assert not found._layers
    assert (together == sum(flat(found.clipped_sum([[example]], CLIP)) for example in EXAMPLES)).all()
