"""Prompts for frozen transformers (Wang 2023, Appendix B): additional rows that every self-attention layer attends to.

One array q of prompt vectors serves all layers; each layer projects it to keys and values and appends them to its own.
Networks of `transformers` look up their attention function by name. The function registered here is torch's attention
with the appended rows, if a layer has any. Cross-attention layers have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from wardround.errors import ModelError
from wardround.models.encoders import quiet_transformers

__all__ = ["Prompt", "SelfAttention", "self_attentions"]

_ATTENTION = "wardround-prompt"  # the name under which this attention is registered
_ROWS = "wardround_rows"  # the attribute of an attention layer that holds its appended rows

# Names of the projections to queries, keys and values, or of the one projection to all three.
_PROJECTIONS = (
    ("query", "key", "value"),
    ("q_proj", "k_proj", "v_proj"),
    ("q_lin", "k_lin", "v_lin"),
    ("query_proj", "key_proj", "value_proj"),
    ("q", "k", "v"),
    ("Wqkv",),
)


@dataclass(frozen=True)
class SelfAttention:
    """A self-attention layer, and the names of its projections to queries, keys and values, or to all three."""

    path: str  # within its network
    layer: nn.Module
    names: tuple[str, ...]

    @property
    def width(self) -> int:
        """Return the width of its keys, over all heads."""
        if len(self.names) == 1:
            return int(getattr(self.layer, self.names[0]).out_features) // 3
        return int(getattr(self.layer, self.names[1]).out_features)


def self_attentions(network: Any) -> tuple[SelfAttention, ...]:
    """Return the self-attention layers of a `transformers` network, bottom to top, encoder before decoder."""
    found: list[SelfAttention] = []
    for path, layer in network.named_modules():
        full_name = f"{path}.{type(layer).__name__}".lower()
        if "cross" in full_name or "encdec" in full_name or path.endswith("encoder_attn"):
            continue  # the cross-attention of a decoder
        children = {name for name, _ in layer.named_children()}
        found += [SelfAttention(path, layer, names) for names in _PROJECTIONS if set(names) <= children]
    if not found:
        raise ModelError(
            f"no self-attention layer was found in {type(network).__name__}; adapters support encoders such as BERT, "
            "RoBERTa, ELECTRA, DistilBERT, ModernBERT or BART"
        )
    return tuple(found)


class _AppendedRows:
    """The rows that an attention layer appends while a prompt is in use."""

    rows: Tensor | None = None  # [sequences, or 1 for all; prompt; keys, then values]


class Prompt(nn.Module):
    """Prompt vectors and their projections, for all self-attention layers of a network."""

    def __init__(self, network: Any, *, length: int = 10, hidden: int = 400) -> None:
        """Prepare the network for prompts; it computes the same until one is appended."""
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask

        super().__init__()
        layers, width = self_attentions(network), int(network.config.hidden_size)
        AttentionInterface.register(_ATTENTION, _attention_with_rows)
        AttentionMaskInterface.register(_ATTENTION, sdpa_mask)  # without a mask function, padding would be attended to
        with quiet_transformers():
            network.set_attn_implementation(_ATTENTION)
        if network.config._attn_implementation != _ATTENTION:
            raise ModelError(
                f"{type(network).__name__} does not support prompts, because transformers does not look up its "
                "attention by name; use adapter = lora, or an encoder such as BERT, RoBERTa or ELECTRA"
            )
        self.q = nn.Parameter(torch.randn(length, width))  # q, N_q × d
        self.inner = nn.ModuleList(nn.Linear(width, hidden, bias=False) for _ in layers)  # W_1, d × h
        self.outer = nn.ModuleList(nn.Linear(hidden, 2 * layer.width, bias=False) for layer in layers)  # W_2, h × 2d
        self._places = tuple(_AppendedRows() for _ in layers)
        for place, found in zip(self._places, layers, strict=True):
            setattr(found.layer, _ROWS, place)

    @contextmanager
    def appended(self, q: Tensor | None = None) -> Iterator[None]:
        """Append the trained prompt, or one prompt of `q` for each sequence, while the context is open.

        `q` is [sequences, length, width], in the order of the sequences in the network's input.
        """
        prompts = self.q[None] if q is None else q
        try:
            for place, inner, outer in zip(self._places, self.inner, self.outer, strict=True):
                place.rows = outer(inner(prompts).tanh())  # [Φ_K; Φ_V], Eq. 15
            yield
        finally:
            for place in self._places:
                place.rows = None


def _attention_with_rows(
    layer: nn.Module,
    query: Tensor,  # [batch, heads, queries, head]
    key: Tensor,  # [batch, heads, keys, head]
    value: Tensor,  # [batch, heads, keys, head]
    attention_mask: Tensor | None,  # [batch, 1, queries, keys]: True or 0 for keys to attend to; None means all
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,  # [batch, heads, queries, keys]
    **more: Any,  # further arguments of transformers: dropout, scale and others
) -> tuple[Tensor, None]:
    """Return softmax(Q [K; Φ_K]ᵀ / √head) [V; Φ_V] (Eq. 14) if the layer has rows; every query attends to them."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    rows = getattr(layer, _ROWS, _AppendedRows).rows
    if rows is None:
        more |= {"is_causal": is_causal, "position_bias": position_bias}
        attended: tuple[Tensor, None] = sdpa_attention_forward(layer, query, key, value, attention_mask, **more)
        return attended
    causal = getattr(layer, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is None and causal and query.shape[2] > 1:
        # transformers leaves causal masks to torch, which would hide the rows as future positions.
        attention_mask = query.new_ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()[None, None]
    batch, heads, _, head = key.shape
    sequences, length, _ = rows.shape
    keys, values = (
        part.reshape(sequences, length, heads, head).transpose(1, 2).expand(batch, -1, -1, -1)
        for part in rows.to(key.dtype).chunk(2, dim=2)
    )
    key, value = torch.cat([key, keys], dim=2), torch.cat([value, values], dim=2)
    more |= {"is_causal": False, "position_bias": _widened(position_bias, length)}
    attended = sdpa_attention_forward(layer, query, key, value, _widened(attention_mask, length), **more)
    return attended


def _widened(mask: Tensor | None, by: int) -> Tensor | None:
    """Return a mask with `by` more keys, all of them attended to."""
    return None if mask is None else pad(mask, (0, by), value=mask.dtype == torch.bool)
