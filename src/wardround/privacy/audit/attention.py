"""Whether a model shares an attention layer, and how wide it is."""

from __future__ import annotations

from wardround.errors import ModelError
from wardround.models.parameter_split import LayeredModel
from wardround.models.prompts import self_attentions

__all__ = ["shared_attention_width"]


def shared_attention_width(model: LayeredModel) -> int:
    """Return the width of the attention layers of which the model shares something; 0 if it shares none.

    Adapters of an attention layer count as the layer: they reveal less, and nobody has shown that they reveal nothing.
    """
    shared = tuple(model.shared_parameters())
    for path, network in model.named_modules():
        if not hasattr(network, "get_input_embeddings"):
            continue
        try:
            attentions = self_attentions(network)
        except ModelError:
            continue
        prefix = f"{path}." if path else ""
        inside = tuple(f"{prefix}{attention.path}." for attention in attentions)
        if any(name.startswith(inside) for name in shared):
            return int(network.config.hidden_size)
    return 0
