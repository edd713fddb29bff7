from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, FNetConfig, FNetModel

from wardround.errors import ModelError
from wardround.models import adapters
from wardround.models.adapters import add_lora, input_offset, is_lora, merged_weights

SIZES = {"vocab_size": 30, "num_hidden_layers": 2, "intermediate_size": 16, "max_position_embeddings": 20}
IDS = torch.tensor([[5, 6, 7, 8, 9], [5, 9, 4, 3, 3]])


def bert() -> Any:
    torch.manual_seed(0)
    config = BertConfig(hidden_size=8, num_attention_heads=2, initializer_range=0.5, **SIZES)
    return BertModel(config, add_pooling_layer=False).eval()


def states(network: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = network(IDS).last_hidden_state
    return found


def test_only_lora_layers_on_queries_and_values_are_trained() -> None:
    network = bert()
    before = states(network)
    add_lora(network, rank=3, alpha=6)
    trained = {name: tuple(p.shape) for name, p in network.named_parameters() if p.requires_grad}
    layers = [f"encoder.layer.{number}.attention.self.{name}" for number in (0, 1) for name in ("query", "value")]
    sides = {"lora_A.default.weight": (3, 8), "lora_B.default.weight": (8, 3)}
    assert trained == {f"{layer}.{side}": shape for layer in layers for side, shape in sides.items()}
    assert all(is_lora(name) == p.requires_grad for name, p in network.named_parameters())
    assert torch.equal(states(network), before)  # B starts at zero


def test_a_lora_layer_by_hand() -> None:
    """W x + alpha / rank · B (A x), which merged is one matrix."""
    network = bert()
    add_lora(network, rank=1, alpha=3)
    layer = network.encoder.layer[0].attention.self.query
    with torch.no_grad():
        layer.base_layer.weight.copy_(torch.eye(8))
        layer.base_layer.bias.zero_()
        layer.lora_A.default.weight.copy_(torch.tensor([[1.0, 2.0, 0, 0, 0, 0, 0, 0]]))
        layer.lora_B.default.weight.copy_(torch.tensor([[0.0], [10.0], [0], [0], [0], [0], [0], [0]]))
    word = torch.tensor([4.0, 5.0, 6.0, 0, 0, 0, 0, 0])
    with torch.no_grad():
        assert layer(word).tolist() == [4, 5 + 3 * 10 * (4 + 2 * 5), 6, 0, 0, 0, 0, 0]
    expected = torch.eye(8)
    expected[1, :2] += torch.tensor([30.0, 60.0])
    assert torch.equal(merged_weights(network)["encoder.layer.0.attention.self.query.weight"], expected)


def test_merged_weights_are_those_of_a_plain_network() -> None:
    network, plain = bert(), bert()
    original = plain.state_dict()
    assert merged_weights(plain).keys() == original.keys()
    assert all(torch.equal(merged_weights(plain)[name], original[name]) for name in original)
    before = states(network)
    add_lora(network, rank=3, alpha=6)
    for name, parameter in network.named_parameters():
        if is_lora(name):
            nn.init.normal_(parameter)
    trained = states(network)
    merged = merged_weights(network)
    plain.load_state_dict(merged)
    assert (trained - before).abs().max() > 0.5
    torch.testing.assert_close(states(plain), trained, atol=1e-5, rtol=1e-5)
    assert not any(tensor.requires_grad for tensor in merged.values())
    assert torch.equal(states(network), trained)  # and goes on as it was


def test_an_encoder_without_attention_refuses_lora() -> None:
    with pytest.raises(ModelError, match="no self-attention layer was found in FNetModel"):
        add_lora(FNetModel(FNetConfig(hidden_size=8, **SIZES)), rank=2, alpha=2)


def test_lora_without_peft_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'wardround\[lora\]'"):
        add_lora(bert(), rank=2, alpha=2)


class Summed(nn.Module):
    """The sum of a sequence's embeddings: what is added to each counts as often as there are pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.tensor([[0.0, 0.0], [1.0, 2.0], [10.0, 20.0]]))

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.words(ids).sum(1)
        return found


def test_the_offset_of_the_input_by_hand() -> None:
    network, ids = Summed(), torch.tensor([[1, 2, 1], [2, 2, 0]])
    offset = torch.tensor([[100.0, 0.0], [0.0, 7.0]], requires_grad=True)
    with input_offset(network, offset):
        found = network(ids)
    assert found.tolist() == [[312, 24], [20, 61]]
    (found * torch.tensor([[1.0, 2.0], [4.0, 8.0]])).sum().backward()
    assert offset.grad is not None
    assert offset.grad.tolist() == [[3, 6], [12, 24]]
    with pytest.raises(RuntimeError, match="half-way"), input_offset(network, offset):
        raise RuntimeError("half-way")
    assert network(ids).tolist() == [[12, 24], [20, 40]]


def test_an_offset_of_zero_changes_nothing() -> None:
    network = bert()
    before = states(network)
    with input_offset(network, torch.zeros(2, 8)):
        assert torch.equal(states(network), before)
    with input_offset(network, torch.eye(8)[:2]):
        assert not torch.allclose(states(network), before, atol=0.01)
