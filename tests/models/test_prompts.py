from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    FNetConfig,
    FNetModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
)

from wardround.errors import ModelError
from wardround.models.prompts import Prompt, self_attentions

SIZES = {"vocab_size": 30, "num_hidden_layers": 2, "intermediate_size": 16, "max_position_embeddings": 20}


def bert(*, width: int = 8, heads: int = 2, layers: int = 2) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = SIZES | {"num_hidden_layers": layers}
    config = BertConfig(hidden_size=width, num_attention_heads=heads, initializer_range=0.5, **sizes)
    return BertModel(config, add_pooling_layer=False).eval()


def bart() -> Any:
    torch.manual_seed(0)
    layers = {f"{half}_{size}": 2 for half in ("encoder", "decoder") for size in ("layers", "attention_heads")}
    wide = {"d_model": 8, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "init_std": 0.5, "max_position_embeddings": 20}
    return BartModel(BartConfig(vocab_size=30, **layers, **wide)).eval()


def spread(prompt: Prompt) -> Prompt:
    """The prompt with weights large enough that what it adds is not lost in what was there."""
    for weight in prompt.parameters():
        nn.init.normal_(weight)
    return prompt


IDS = torch.tensor([[5, 6, 7, 8, 9], [5, 9, 4, 0, 0], [7, 7, 0, 0, 0]])
MASK = (IDS > 0).long()


# One layer, by hand.


def one_layer(query: float) -> tuple[Any, Any, Prompt]:
    """A layer of one head of two numbers: keys and values are what it reads, queries that times `query`."""
    network = bert(width=2, heads=1, layers=1)
    layer = network.encoder.layer[0].attention.self
    with torch.no_grad():
        for linear, factor in ((layer.query, query), (layer.key, 1.0), (layer.value, 1.0)):
            linear.weight.copy_(factor * torch.eye(2))
            linear.bias.zero_()
    return network, layer, Prompt(network, length=2, hidden=1)


def test_appended_rows_of_zeros_take_a_share_of_the_softmax() -> None:
    _, layer, prompt = one_layer(query=1.0)
    nn.init.zeros_(prompt.outer[0].weight)
    # x·x / √2 = ln 2: the word's own key counts twice, either row of the prompt once, so that half of the word is left.
    word = torch.tensor([[[math.sqrt(math.sqrt(2) * math.log(2)), 0.0]]])
    with torch.no_grad():
        with prompt.appended():
            found = layer(word)[0]
        torch.testing.assert_close(found, word / 2)
        torch.testing.assert_close(layer(word)[0], word)


def test_keys_and_values_come_from_the_prompt() -> None:
    _, layer, prompt = one_layer(query=0.0)  # reads all keys alike
    with torch.no_grad():
        prompt.inner[0].weight.copy_(torch.tensor([[math.atanh(0.5), 0.0]]))
        prompt.outer[0].weight.copy_(torch.tensor([[2.0], [0.0], [0.0], [12.0]]))
        # tanh gives 0.5 and 0, so that the values are (0, 6) and (0, 0), and the mean over three (1, 4).
        prompt.q.copy_(torch.tensor([[1.0, 5.0], [0.0, 7.0]]))
        with prompt.appended():
            found = layer(torch.tensor([[[3.0, 6.0]]]))[0]
    torch.testing.assert_close(found, torch.tensor([[[1.0, 4.0]]]))


def test_the_keys_of_the_prompt_are_scaled_by_the_root_of_the_head() -> None:
    _, layer, prompt = one_layer(query=1.0)
    with torch.no_grad():
        prompt.inner[0].weight.copy_(torch.tensor([[math.atanh(0.5), 0.0]]))
        prompt.outer[0].weight.copy_(torch.tensor([[0.0], [2 * math.sqrt(2) * math.log(6)], [0.0], [20.0]]))
        prompt.q.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        # The word (0, 1) scores 1/√2 = s with itself, ln 6 with the first row (value (0, 10)) and 0 with the second.
        with prompt.appended():
            found = layer(torch.tensor([[[0.0, 1.0]]]))[0]
    own = math.exp(1 / math.sqrt(2))
    torch.testing.assert_close(found[0, 0, 1].item(), (own * 1 + 6 * 10) / (own + 6 + 1))


def test_appendix_b_in_plain_algebra() -> None:
    """Eq. 13 to 15 for every head, sequence and layer, with padding."""
    network = bert()
    prompt = spread(Prompt(network, length=3, hidden=5))
    layer = network.encoder.layer[1].attention.self
    states = torch.randn(3, 5, 8)
    readable = MASK.bool()[:, None, None].expand(-1, 1, 5, -1)
    with torch.no_grad(), prompt.appended():
        found = layer(states, attention_mask=readable)[0]
    rows = (prompt.q @ prompt.inner[1].weight.T).tanh() @ prompt.outer[1].weight.T  # type: ignore[operator, union-attr]
    for sequence, length in enumerate(MASK.sum(1).tolist()):
        read = states[sequence, :length]
        key = torch.cat([layer.key(read), rows[:, :8]])
        value = torch.cat([layer.value(read), rows[:, 8:]])
        query = layer.query(states[sequence])
        expected = [by_hand(query[:, at], key[:, at], value[:, at]) for at in (slice(0, 4), slice(4, 8))]
        torch.testing.assert_close(found[sequence], torch.cat(expected, dim=1), atol=1e-5, rtol=1e-4)


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(query @ key.T / math.sqrt(query.shape[1]), dim=1) @ value


# Whole networks.


@pytest.mark.parametrize("make", [bert, bart])
def test_without_a_prompt_the_network_computes_the_same(make: Any) -> None:
    with torch.no_grad():
        network = make()
        before = network(IDS, attention_mask=MASK).last_hidden_state
        prompt = spread(Prompt(network))
        assert torch.equal(network(IDS, attention_mask=MASK).last_hidden_state, before)
        with prompt.appended():
            given = network(IDS, attention_mask=MASK).last_hidden_state
        with pytest.raises(RuntimeError, match="half-way"), prompt.appended():
            raise RuntimeError("half-way")
        assert torch.equal(network(IDS, attention_mask=MASK).last_hidden_state, before)
    assert (given - before).abs().amax(dim=(1, 2)).min() > 0.1


def test_every_sequence_may_have_its_own_prompt() -> None:
    network = bert()
    prompt = spread(Prompt(network, length=4, hidden=6))
    q = torch.randn(3, 4, 8)
    with torch.no_grad():
        with prompt.appended(q):
            together = network(IDS, attention_mask=MASK).last_hidden_state
        for row, length in enumerate(MASK.sum(1).tolist()):
            prompt.q.copy_(q[row])
            with prompt.appended():
                alone = network(IDS[row : row + 1, :length]).last_hidden_state[0]
            torch.testing.assert_close(together[row, :length], alone, atol=1e-5, rtol=1e-4)


def test_one_backward_gives_the_gradient_of_each_sequence() -> None:
    network = bert()
    prompt = spread(Prompt(network, length=4, hidden=6))
    q = prompt.q.detach().repeat(3, 1, 1).requires_grad_()
    weights = torch.randn(3, 5, 8) * MASK[..., None]
    with prompt.appended(q):
        (network(IDS, attention_mask=MASK).last_hidden_state * weights).sum().backward()
    assert q.grad is not None
    for row in range(3):
        prompt.zero_grad()
        with prompt.appended():
            (network(IDS[row : row + 1], attention_mask=MASK[row : row + 1])[0] * weights[row]).sum().backward()
        assert prompt.q.grad is not None and prompt.q.grad.norm() > 0.01
        torch.testing.assert_close(q.grad[row], prompt.q.grad, atol=1e-5, rtol=1e-4)


def test_gradients_reach_all_of_a_prompt_on_a_frozen_network() -> None:
    network = bart().requires_grad_(False)
    prompt = Prompt(network, length=4, hidden=6)
    with prompt.appended():
        states = network(IDS, attention_mask=MASK).last_hidden_state
    (states * torch.randn(states.shape)).sum().backward()
    assert all(weight.grad is not None and weight.grad.norm() > 0 for weight in prompt.parameters())
    assert {tuple(weight.shape) for weight in prompt.parameters()} == {(4, 8), (6, 8), (16, 6)}
    assert len(prompt.inner) == 4


def test_masks_of_either_kind_are_widened() -> None:
    network = bert()
    prompt = spread(Prompt(network))
    layer = network.encoder.layer[0].attention.self
    states = torch.randn(3, 5, 8)
    readable = MASK.bool()[:, None, None].expand(-1, 1, 5, -1)
    additive = torch.zeros(3, 1, 5, 5).masked_fill(~readable, -torch.inf)
    with torch.no_grad(), prompt.appended():
        torch.testing.assert_close(layer(states, attention_mask=additive)[0], layer(states, attention_mask=readable)[0])


def test_padding_is_not_read() -> None:
    network = bert()
    prompt = spread(Prompt(network))
    other = torch.where(MASK.bool(), IDS, 11)
    with torch.no_grad(), prompt.appended():
        one, two = (network(ids, attention_mask=MASK).last_hidden_state for ids in (IDS, other))
    assert torch.equal(one[MASK.bool()], two[MASK.bool()])


def test_rows_are_appended_to_self_attention_only() -> None:
    paths = [found.path for found in self_attentions(bart())]
    assert paths == [f"{half}.layers.{number}.self_attn" for half in ("encoder", "decoder") for number in (0, 1)]
    config = BertConfig(hidden_size=8, num_attention_heads=2, is_decoder=True, add_cross_attention=True, **SIZES)
    crossed = BertModel(config, add_pooling_layer=False)
    assert [found.path for found in self_attentions(crossed)] == [f"encoder.layer.{n}.attention.self" for n in (0, 1)]


def test_a_causal_decoder_attends_to_the_prompt_but_not_to_later_words() -> None:
    network = bart()
    prompt = spread(Prompt(network))
    written = torch.tensor([[2, 5, 6, 7, 8]])
    later = torch.tensor([[2, 5, 6, 9, 9]])
    with torch.no_grad():
        read = network.encoder(IDS[:1]).last_hidden_state
        plain = network.decoder(written, encoder_hidden_states=read).last_hidden_state
        with prompt.appended():
            one, two = (network.decoder(ids, encoder_hidden_states=read).last_hidden_state for ids in (written, later))
    torch.testing.assert_close(one[:, :3], two[:, :3])
    assert not torch.allclose(one[:, 3], two[:, 3], atol=1e-3)
    assert (one - plain).abs().amax(dim=(0, 2)).min() > 0.1


def test_decoding_step_by_step_equals_decoding_at_once() -> None:
    network = bart()
    prompt = spread(Prompt(network))
    written = torch.tensor([[2, 5, 6, 7], [2, 9, 9, 4], [2, 3, 4, 5]])
    with torch.no_grad(), prompt.appended(torch.randn(3, 10, 8)):
        read = network.encoder(IDS, attention_mask=MASK).last_hidden_state
        more = {"encoder_hidden_states": read, "encoder_attention_mask": MASK, "use_cache": True}
        at_once = network.decoder(written, **more).last_hidden_state
        cache, steps = None, []
        for place in range(4):
            output = network.decoder(written[:, place : place + 1], past_key_values=cache, **more)
            cache = output.past_key_values
            steps.append(output.last_hidden_state)
    torch.testing.assert_close(torch.cat(steps, dim=1), at_once, atol=1e-5, rtol=1e-4)


def test_one_projection_to_queries_keys_and_values() -> None:
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    config = ModernBertConfig(hidden_size=8, num_attention_heads=2, local_attention=4, **SIZES, **special)
    network = ModernBertModel(config).eval()
    prompt = Prompt(network, length=4, hidden=6)
    q = torch.randn(3, 4, 8)
    with torch.no_grad():
        with prompt.appended(q):
            together = network(IDS, attention_mask=MASK).last_hidden_state
        with prompt.appended(q[1:2]):
            alone = network(IDS[1:2, :3]).last_hidden_state
        assert not torch.allclose(network(IDS[1:2, :3]).last_hidden_state, alone, atol=1e-3)
    torch.testing.assert_close(together[1:2, :3], alone, atol=1e-5, rtol=1e-4)


def test_half_precision() -> None:
    network = bert()
    prompt = spread(Prompt(network))
    with torch.no_grad(), prompt.appended():
        expected = network(IDS, attention_mask=MASK).last_hidden_state
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = network(IDS, attention_mask=MASK).last_hidden_state
        torch.testing.assert_close(found.float(), expected, atol=0.2, rtol=0)
        found = network.bfloat16()(IDS, attention_mask=MASK).last_hidden_state  # under a prompt that stays as it was
        torch.testing.assert_close(found.float(), expected, atol=0.2, rtol=0)


def test_a_copy_has_a_prompt_of_its_own() -> None:
    network = bert()
    model = nn.ModuleDict({"network": network, "prompt": spread(Prompt(network))})
    copied = deepcopy(model)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), copied.parameters(), strict=True))
    with torch.no_grad():
        before = network(IDS, attention_mask=MASK).last_hidden_state
        with copied["prompt"].appended():
            assert torch.equal(network(IDS, attention_mask=MASK).last_hidden_state, before)
            assert not torch.equal(copied["network"](IDS, attention_mask=MASK).last_hidden_state, before)


class Direct(nn.Module):
    """A self-attention layer that calls torch's attention itself, as those of transformers 4 do."""

    def __init__(self, layer: Any, heads: int, *, calls: bool = True) -> None:
        super().__init__()
        self.query, self.key, self.value, self.heads, self.calls = layer.query, layer.key, layer.value, heads, calls

    def forward(self, states: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        batch, length, width = states.shape
        parts = (linear(states) for linear in (self.query, self.key, self.value))
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        if not self.calls:
            return states
        found = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return found.transpose(1, 2).reshape(batch, length, width)


class DirectNetwork(nn.Module):
    """A network whose attention function cannot be changed."""

    def __init__(self, layer: Direct, implementation: str = "sdpa") -> None:
        super().__init__()
        self.layer = layer
        self.config = BertConfig(hidden_size=8, attn_implementation=implementation)

    def set_attn_implementation(self, name: str) -> None: ...


def test_a_layer_that_calls_the_attention_of_torch_itself() -> None:
    network = bert()
    prompt = spread(Prompt(network, length=3, hidden=5))
    layer = network.encoder.layer[0].attention.self
    direct = DirectNetwork(Direct(layer, heads=2))
    same = Prompt(direct, length=3, hidden=5)
    with torch.no_grad():
        same.q.copy_(prompt.q)
        same.inner[0].load_state_dict(prompt.inner[0].state_dict())
        same.outer[0].load_state_dict(prompt.outer[0].state_dict())
        states = torch.randn(3, 5, 8)
        readable = MASK.bool()[:, None, None].expand(-1, 1, 5, -1)
        before = direct.layer(states)
        for mask in (readable, None):
            with prompt.appended():
                expected = layer(states, attention_mask=mask)[0]
            with same.appended():
                torch.testing.assert_close(direct.layer(states, mask), expected)
        assert torch.equal(direct.layer(states), before)
        with same.appended(), pytest.raises(RuntimeError):
            direct.layer(torch.randn(3, 5, 9))  # an error leaves the attention of torch as it was
        assert torch.equal(direct.layer(states), before)


def test_a_causal_layer_that_calls_the_attention_of_torch_itself() -> None:
    direct = DirectNetwork(Direct(bert().encoder.layer[0].attention.self, heads=2))
    prompt = spread(Prompt(direct, length=3, hidden=5))
    states = torch.randn(1, 5, 8)
    later = torch.cat([states[:, :3], torch.randn(1, 2, 8)], dim=1)
    with torch.no_grad():
        plain = direct.layer(states, causal=True)
        with prompt.appended():
            one, two = (direct.layer(read, causal=True) for read in (states, later))
    torch.testing.assert_close(one[:, :3], two[:, :3])
    assert (one - plain).abs().amax(dim=2).min() > 0.01


def test_a_layer_that_computes_its_attention_without_torch() -> None:
    direct = DirectNetwork(Direct(bert().encoder.layer[0].attention.self, heads=2, calls=False))
    prompt = Prompt(direct)
    with prompt.appended(), pytest.raises(ModelError, match=r"Direct does not support prompts.*or transformers 5"):
        direct.layer(torch.randn(1, 5, 8))


def test_only_the_prompt_is_saved() -> None:
    prompt = Prompt(bert())
    places = [f"{half}.{number}.weight" for half in ("inner", "outer") for number in (0, 1)]
    assert list(prompt.state_dict()) == ["q", *places]


def test_networks_without_prompt_support_are_refused() -> None:
    with pytest.raises(ModelError, match="no self-attention layer was found in FNetModel; adapters support encoders"):
        Prompt(FNetModel(FNetConfig(hidden_size=8, **SIZES)))
    with pytest.raises(ModelError, match=r"MPNetModel does not support prompts.*use adapter = lora"):
        Prompt(MPNetModel(MPNetConfig(hidden_size=8, num_attention_heads=2, **SIZES)))
