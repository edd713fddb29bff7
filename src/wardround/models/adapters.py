"""What trains in place of a frozen encoder: LoRA layers (Hu 2021) through PEFT; and what its input may be moved by."""

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

__all__ = ["add_lora", "input_moved", "is_lora", "merged_weights"]

_ADAPTER = "default"  # PEFT knows several by name; there is one here


def add_lora(network: Any, *, rank: int, alpha: int) -> None:
    """Put LoRA layers, in place, on the queries and values of every self-attention layer; all else is frozen.

    They start at zero: the network reads as before until they are trained. Where one projection gives queries, keys
    and values, they are on it.
    """
    if find_spec("peft") is None:
        raise ModelError("LoRA needs PEFT, which is not installed: pip install 'wardround[lora]'")
    peft = import_module("peft")
    adapted = [f"{found.path}.{name}" for found in self_attentions(network) for name in found.names[::2]]
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=adapted)
    peft.inject_adapter_in_model(config, network, adapter_name=_ADAPTER)


def is_lora(parameter: str) -> bool:
    """Whether a parameter of this name lies in a LoRA layer."""
    return ".lora_" in parameter


@torch.no_grad()
def merged_weights(network: Any) -> dict[str, Tensor]:
    """The weights of a network, its LoRA layers added to what they adapt, under the names it had without them.

    The network itself stays as it is; where it has no such layers, these are its weights.
    """
    weights = {
        name.replace(".base_layer.", "."): tensor for name, tensor in network.state_dict().items() if not is_lora(name)
    }
    for path, layer in network.named_modules():
        if hasattr(layer, "lora_A"):
            weights[f"{path}.weight"] = layer.base_layer.weight + layer.get_delta_weight(_ADAPTER)
    return weights


@contextmanager
def input_moved(network: Any, offset: Tensor) -> Iterator[None]:
    """While the network reads, `offset` [sequences, width] is added to the embedding of every piece of a sequence."""
    hook = network.get_input_embeddings().register_forward_hook(
        lambda _layer, _ids, embedded: embedded + offset[:, None]
    )
    try:
        yield
    finally:
        hook.remove()
