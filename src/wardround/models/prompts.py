"""Prompts for frozen transformers (Wang 2023, Appendix B): additional rows that every self-attention layer attends to.

One array q of prompt vectors serves all layers; each layer projects it to keys and values and appends them to its own.
Networks of `transformers` look up their attention function by name. The function registered here is torch's attention
with the appended rows, if a layer has any. Cross-attention layers have none. Under transformers 4 most encoders call
torch's attention directly; there the rows are appended to that call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

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
    call: _AttentionCall | None = None  # the running call of a layer that calls torch's attention directly


class Prompt(nn.Module):
    """Prompt vectors and their projections, for all self-attention layers of a network."""

    def __init__(self, network: Any, *, length: int = 10, hidden: int = 400) -> None:
        """Prepare the network for prompts; it computes the same until one is appended."""
        super().__init__()
        layers, width = self_attentions(network), int(network.config.hidden_size)
        self.q = nn.Parameter(torch.randn(length, width))  # q, N_q × d
        self.inner = nn.ModuleList(nn.Linear(width, hidden, bias=False) for _ in layers)  # W_1, d × h
        self.outer = nn.ModuleList(nn.Linear(hidden, 2 * layer.width, bias=False) for layer in layers)  # W_2, h × 2d
        self._places = tuple(_AppendedRows() for _ in layers)
        for place, found in zip(self._places, layers, strict=True):
            setattr(found.layer, _ROWS, place)
        _use_rows(network, (found.layer for found in layers))

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


def _use_rows(network: Any, layers: Iterable[nn.Module]) -> None:
    """Make these layers of the network use the attention with appended rows."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_ATTENTION, _attention_with_rows)
    AttentionMaskInterface.register(_ATTENTION, sdpa_mask)  # without a mask function, padding would be attended to
    with quiet_transformers():
        network.set_attn_implementation(_ATTENTION)
    if network.config._attn_implementation == _ATTENTION:
        return
    if network.config._attn_implementation != "sdpa":
        raise ModelError(
            f"{type(network).__name__} does not support prompts, because transformers does not look up its attention "
            "by name; use adapter = lora, or an encoder such as BERT, RoBERTa or ELECTRA"
        )
    for layer in layers:
        layer.register_forward_pre_hook(_enter_call)
        layer.register_forward_hook(_leave_call, always_call=True)


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
    if causal and query.shape[2] > 1:
        attention_mask = _causal(query, key, attention_mask)
    key, value = _appended(key, value, rows)
    length = rows.shape[1]
    more["is_causal"] = False
    if position_bias is not None:
        more["position_bias"] = _widened(position_bias, length)
    attended = sdpa_attention_forward(layer, query, key, value, _widened(attention_mask, length), **more)
    return attended


class _AttentionCall(TorchFunctionMode):
    """Append rows to the keys and values of a layer that calls torch's attention itself."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self._rows = rows
        self.appended = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = self._attend if function is scaled_dot_product_attention else function
        return call(*args, **(kwargs or {}))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **more: Any,  # further arguments of torch: scale and others
    ) -> Tensor:
        if is_causal:
            attn_mask = _causal(query, key, attn_mask)
        key, value = _appended(key, value, self._rows)
        self.appended = True
        attn_mask = _widened(attn_mask, self._rows.shape[1])
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, **more)


def _enter_call(layer: nn.Module, _inputs: Any) -> None:
    place: _AppendedRows = getattr(layer, _ROWS)
    if place.rows is not None:
        place.call = _AttentionCall(place.rows)
        place.call.__enter__()  # type: ignore[no-untyped-call]


def _leave_call(layer: nn.Module, _inputs: Any, output: Any) -> None:
    place: _AppendedRows = getattr(layer, _ROWS)
    if place.call is None:
        return
    call, place.call = place.call, None
    call.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    if output is not None and not call.appended:  # there is no output if the layer raised an error
        raise ModelError(
            f"{type(layer).__name__} does not support prompts, because it computes its attention itself; "
            "use adapter = lora, or transformers 5"
        )


def _causal(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mask; without one, make the causal mask that torch would, which would hide the rows as the future."""
    return query.new_ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()[None, None] if mask is None else mask


def _appended(key: Tensor, value: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values [batch, heads, keys, head] with the rows of a prompt behind them."""
    batch, heads, _, head = key.shape
    sequences, length, _ = rows.shape
    keys, values = (
        part.reshape(sequences, length, heads, head).transpose(1, 2).expand(batch, -1, -1, -1)
        for part in rows.to(key.dtype).chunk(2, dim=2)
    )
    return torch.cat([key, keys], dim=2), torch.cat([value, values], dim=2)


def _widened(mask: Tensor | None, by: int) -> Tensor | None:
    """Return a mask with `by` more keys, all of them attended to."""
    return None if mask is None else pad(mask, (0, by), value=mask.dtype == torch.bool)
