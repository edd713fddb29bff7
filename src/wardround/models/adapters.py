"""Adapters of a frozen encoder: LoRA layers (Hu 2021) through PEFT, and an offset of its input embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from wardround.errors import ModelError
from wardround.models.prompts import self_attentions

__all__ = ["add_lora", "input_offset", "is_lora", "merged_weights"]

_ADAPTER = "default"  # PEFT names its adapters; there is one here


def add_lora(network: Any, *, rank: int, alpha: int) -> None:
    """Add LoRA layers in place to the queries and values of every self-attention layer; freeze everything else.

    They start at zero, so the network computes the same until they are trained. If one projection computes queries,
    keys and values, it is adapted as a whole.
    """
    if find_spec("peft") is None:
        raise ModelError("LoRA needs PEFT, which is not installed: pip install 'wardround[lora]'")
    peft = import_module("peft")
    adapted = [f"{found.path}.{name}" for found in self_attentions(network) for name in found.names[::2]]
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=adapted)
    peft.inject_adapter_in_model(config, network, adapter_name=_ADAPTER)


def is_lora(parameter: str) -> bool:
    """Return whether a parameter of this name belongs to a LoRA layer."""
    return ".lora_" in parameter


@torch.no_grad()
def merged_weights(network: Any) -> dict[str, Tensor]:
    """Return the weights of a network with its LoRA layers merged, under the names it has without them.

    The network itself is not changed. Without LoRA layers, these are its own weights.
    """
    weights = {
        name.replace(".base_layer.", "."): tensor for name, tensor in network.state_dict().items() if not is_lora(name)
    }
    for path, layer in network.named_modules():
        if hasattr(layer, "lora_A"):
            weights[f"{path}.weight"] = layer.base_layer.weight + layer.get_delta_weight(_ADAPTER)
    return weights


@contextmanager
def input_offset(network: Any, offset: Tensor) -> Iterator[None]:
    """Add `offset` [sequences, width] to the embedding of every piece of a sequence while the context is open."""
    hook = network.get_input_embeddings().register_forward_hook(
        lambda _layer, _ids, embedded: embedded + offset[:, None]
    )
    try:
        yield
    finally:
        hook.remove()
