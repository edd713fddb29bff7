"""Prompts for frozen transformers (Wang 2023, Appendix B): rows that every self-attention layer attends to as well.

One array q of prompt vectors serves all layers; each projects it to the keys and values that it appends to its own.
Networks of `transformers` look their attention up by name. Under ours it is torch's, with these rows appended where a
layer was given some; cross-attention is given none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from wardround.errors import ModelError
from wardround.models.encoders import without_remarks

__all__ = ["Prompt", "SelfAttention", "self_attentions"]

_ATTENTION = "wardround-prompt"  # the name that our attention is looked up by
_ROWS = "wardround_rows"  # the attribute of an attention layer that holds what it appends

# What networks call the projections to queries, keys and values, or the one to all three.
_PROJECTIONS = (
    ("query", "key", "value"),
    ("q_proj", "k_proj", "v_proj"),
    ("q_lin", "k_lin", "v_lin"),
    ("query_proj", "key_proj", "value_proj"),
    ("q", "k", "v"),
    ("Wqkv",),
)


# Where a prompt goes.


@dataclass(frozen=True)
class SelfAttention:
    """A self-attention layer, and what its projections to queries, keys and values, or to all three, are called."""

    path: str  # within its network
    layer: nn.Module
    names: tuple[str, ...]

    @property
    def width(self) -> int:
        """Of its keys, all heads together."""
        if len(self.names) == 1:
            return int(getattr(self.layer, self.names[0]).out_features) // 3
        return int(getattr(self.layer, self.names[1]).out_features)


def self_attentions(network: Any) -> tuple[SelfAttention, ...]:
    """The self-attention layers of a network of `transformers`, bottom to top, an encoder's before a decoder's."""
    found = tuple(
        SelfAttention(path, layer, names)
        for path, layer in network.named_modules()
        for names in _PROJECTIONS
        if set(names) <= {name for name, _ in layer.named_children()} and not _crosses(path, layer)
    )
    if not found:
        raise ModelError(
            f"no self-attention layer was found in {type(network).__name__}; an adapter goes on encoders such as BERT, "
            "RoBERTa, ELECTRA, DistilBERT, ModernBERT or BART"
        )
    return found


def _crosses(path: str, layer: nn.Module) -> bool:
    """Whether a decoder reads its encoder through this layer."""
    named = f"{path}.{type(layer).__name__}".lower()
    return "cross" in named or "encdec" in named or path.endswith("encoder_attn")


# What is appended.


class _Appended:
    """What an attention layer appends while its network reads."""

    rows: Tensor | None = None  # [sequences, or 1 for all; prompt; keys, then values]


class Prompt(nn.Module):
    """Prompt vectors and their projections, for all self-attention layers of a network."""

    def __init__(self, network: Any, *, length: int = 10, hidden: int = 400) -> None:
        """Prepare the network to be given prompts; until it is, it reads as before."""
        super().__init__()
        layers, width = self_attentions(network), int(network.config.hidden_size)
        _attend_ours(network)
        self.q = nn.Parameter(torch.randn(length, width))  # q, N_q × d
        self.inner = nn.ModuleList(nn.Linear(width, hidden, bias=False) for _ in layers)  # W_1, d × h
        self.outer = nn.ModuleList(nn.Linear(hidden, 2 * layer.width, bias=False) for layer in layers)  # W_2, h × 2d
        self._places = tuple(_Appended() for _ in layers)
        for place, found in zip(self._places, layers, strict=True):
            setattr(found.layer, _ROWS, place)

    @contextmanager
    def given(self, q: Tensor | None = None) -> Iterator[None]:
        """While the network reads, its layers append the trained prompt, or each sequence's own of `q`.

        `q` is [sequences, length, width], in the order in which the network reads the sequences.
        """
        given = self.q[None] if q is None else q
        try:
            for place, inner, outer in zip(self._places, self.inner, self.outer, strict=True):
                place.rows = outer(inner(given).tanh())  # [Φ_K; Φ_V], Eq. 15
            yield
        finally:
            for place in self._places:
                place.rows = None


def _attend_ours(network: Any) -> None:
    """Have the network look up our attention in place of its own."""
    AttentionInterface.register(_ATTENTION, _attend)
    AttentionMaskInterface.register(_ATTENTION, sdpa_mask)  # without one, padding would be read
    with without_remarks():
        network.set_attn_implementation(_ATTENTION)
    if network.config._attn_implementation != _ATTENTION:
        raise ModelError(
            f"the attention of {type(network).__name__} takes no prompt, since transformers does not look it up by "
            "name; take adapter = lora, or an encoder such as BERT, RoBERTa or ELECTRA"
        )


def _attend(
    layer: nn.Module,
    query: Tensor,  # [batch, heads, queries, head]
    key: Tensor,  # [batch, heads, keys, head]
    value: Tensor,  # [batch, heads, keys, head]
    attention_mask: Tensor | None,  # [batch, 1, queries, keys]: True or 0 where a key is read; None reads all
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,  # [batch, heads, queries, keys]
    **more: Any,  # what transformers hands on to any attention: dropout, scale and what is of no account here
) -> tuple[Tensor, None]:
    """Eq. 14, where the layer was given rows: softmax(Q [K; Φ_K]ᵀ / √head) [V; Φ_V]; the rows are read by all."""
    rows = getattr(layer, _ROWS, _Appended).rows
    if rows is None:
        more |= {"is_causal": is_causal, "position_bias": position_bias}
        attended: tuple[Tensor, None] = sdpa_attention_forward(layer, query, key, value, attention_mask, **more)
        return attended
    causal = getattr(layer, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is None and causal and query.shape[2] > 1:
        # transformers leaves a causal mask to torch, which would hide the rows as what is yet to come.
        attention_mask = query.new_ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()[None, None]
    length = rows.shape[1]
    keys, values = (_in_heads(part, key) for part in rows.chunk(2, dim=2))
    key, value = torch.cat([key, keys], dim=2), torch.cat([value, values], dim=2)
    more |= {"is_causal": False, "position_bias": _widened(position_bias, length)}
    attended = sdpa_attention_forward(layer, query, key, value, _widened(attention_mask, length), **more)
    return attended


def _in_heads(part: Tensor, like: Tensor) -> Tensor:
    """[sequences or 1, prompt, width] as [batch, heads, prompt, head]."""
    batch, heads, _, head = like.shape
    split = part.to(like.dtype).reshape(*part.shape[:2], heads, head)
    return split.transpose(1, 2).expand(batch, -1, -1, -1)


def _widened(mask: Tensor | None, by: int) -> Tensor | None:
    """A mask with as many more keys, all of them read."""
    return None if mask is None else pad(mask, (0, by), value=mask.dtype == torch.bool)
