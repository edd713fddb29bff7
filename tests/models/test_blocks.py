from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from wardround.models.blocks import (
    BiLstm,
    CharacterCnn,
    CharacterLstm,
    ScalarMix,
    WordCnn,
    reversal,
    reverse_within_length,
)

LENGTHS = (5, 1, 3)
MASK = torch.arange(5)[None] < torch.tensor(LENGTHS)[:, None]
SPELLED = torch.tensor([[5, 6, 7, 8, 9], [4, 0, 0, 0, 0], [3, 2, 9, 0, 0]])  # 0 is padding


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "layer",
    [
        CharacterCnn(dimension=3, filters=6),
        CharacterCnn(dimension=3, filters=6, kernel=5),
        CharacterLstm(dimension=3, hidden=3),
    ],
    ids=["cnn", "wide-cnn", "lstm"],
)
def test_a_word_has_one_vector_however_it_is_padded(layer: CharacterCnn | CharacterLstm) -> None:
    together = layer(SPELLED)
    assert together.shape == (3, layer.width)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(layer(SPELLED[row : row + 1, :length]), together[row : row + 1])
    torch.testing.assert_close(layer(nn.functional.pad(SPELLED, (0, 4))), together)


def test_the_character_cnn_takes_the_maximum_over_positions() -> None:
    layer = CharacterCnn(dimension=1, filters=2)
    with torch.no_grad():
        layer.embedding.weight[1:4] = torch.tensor([[1.0], [2.0], [-5.0]])
        layer.convolution.weight.copy_(torch.tensor([[[0.0, 1.0, 0.0]], [[1.0, 0.0, 1.0]]]))  # itself; its neighbours
        layer.convolution.bias.zero_()  # type: ignore[union-attr]
    # Characters 1, 2, -5. Themselves: at most 2. Sums of neighbours: 2, 1 - 5, 2.
    assert layer(torch.tensor([[1, 2, 3, 0]])).tolist() == [[2.0, 2.0]]


def test_the_character_lstm_reads_a_word_in_both_directions() -> None:
    layer = CharacterLstm(dimension=3, hidden=4)
    embedded = layer.embedding(SPELLED[2:, :3])
    ahead = layer.forwards(embedded)[0][:, -1]
    back = layer.backwards(embedded.flip(1))[0][:, -1]
    torch.testing.assert_close(layer(SPELLED)[2:], torch.cat([ahead, back], dim=1))


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_the_word_cnn_never_reads_padding(kernel: int) -> None:
    layer = WordCnn(4, filters=6, kernel=kernel)
    check_padding(layer)


def test_the_word_cnn_sees_its_neighbours() -> None:
    layer = WordCnn(1, filters=1)
    with torch.no_grad():
        layer.convolution.weight.copy_(torch.tensor([[[10.0, 1.0, 100.0]]]))
        layer.convolution.bias.zero_()  # type: ignore[union-attr]
    words = torch.tensor([[[1.0], [2.0], [3.0], [9.0]]])
    mask = torch.tensor([[True, True, True, False]])
    assert layer(words, mask)[0, :3, 0].tolist() == [1 + 200, 10 + 2 + 300, 20 + 3]


@pytest.mark.parametrize("layers", [1, 2])
def test_the_bilstm_never_reads_padding(layers: int) -> None:
    check_padding(BiLstm(4, hidden=3, layers=layers))


def check_padding(layer: WordCnn | BiLstm) -> None:
    words = torch.randn(3, 5, 4)
    words[~MASK] = 77.0
    together = layer(words, MASK)
    assert together.shape == (3, 5, layer.width)
    for row, length in enumerate(LENGTHS):
        alone = layer(words[row : row + 1, :length], MASK[row : row + 1, :length])
        torch.testing.assert_close(alone, together[row : row + 1, :length])


@pytest.mark.parametrize("layers", [1, 2])
def test_the_bilstm_is_torchs_packed_bidirectional_lstm(layers: int) -> None:
    ours = BiLstm(4, hidden=3, layers=layers)
    theirs = nn.LSTM(4, 3, num_layers=layers, bidirectional=True, batch_first=True)
    for number in range(layers):
        for suffix, stack in (("", ours.forwards), ("_reverse", ours.backwards)):
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                copy = getattr(theirs, f"{kind}_l{number}{suffix}")
                copy.data.copy_(getattr(stack[number], f"{kind}_l0"))
    mine = torch.randn(3, 5, 4, requires_grad=True)
    other = mine.detach().clone().requires_grad_()
    packed = pack_padded_sequence(other, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    expected: Tensor = pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
    found = ours(mine, MASK) * MASK[:, :, None]
    torch.testing.assert_close(found, expected)
    found.pow(2).sum().backward()
    expected.pow(2).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(mine.grad, other.grad)


def test_dropout_is_applied_between_lstm_layers_only() -> None:
    words = torch.ones(1, 5, 4)
    one, two = BiLstm(4, hidden=3, dropout=0.9), BiLstm(4, hidden=3, layers=2, dropout=0.9)
    assert torch.equal(one(words, MASK[:1]), one(words, MASK[:1]))
    assert not torch.equal(two(words, MASK[:1]), two(words, MASK[:1]))


def test_the_scalar_mix_by_hand() -> None:
    mix = ScalarMix(2)
    layers = [torch.tensor([[[4.0, 0.0]]]), torch.tensor([[[0.0, 8.0]]])]
    assert mix(layers).tolist() == [[[2.0, 4.0]]]  # at first the plain mean
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.0, math.log(3.0)]))  # a quarter and three quarters
        mix.scale.fill_(2.0)
    torch.testing.assert_close(mix(layers), torch.tensor([[[2.0, 12.0]]]))
    assert {name: tuple(p.shape) for name, p in mix.named_parameters()} == {"weights": (2,), "scale": ()}


REVERSED_MASK = torch.tensor([[True, True, True, False], [True, False, False, False], [True, True, True, True]])


def test_each_sentence_is_reversed_within_its_length() -> None:
    assert reversal(REVERSED_MASK).tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [3, 2, 1, 0]]


def test_reversing_twice_restores_the_sequence() -> None:
    sequence = torch.randn(3, 4, 2)
    turned = reverse_within_length(sequence, REVERSED_MASK)
    assert torch.equal(turned[0, 0], sequence[0, 2])
    assert torch.equal(turned[0, 3], sequence[0, 3])
    assert torch.equal(reverse_within_length(turned, REVERSED_MASK), sequence)
