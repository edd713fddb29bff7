"""Make a BART whose encoder is a BERT, layer by layer: a small one that reads well before it has learned to write.

The layers of both have the same shape: attention, then a feed-forward network, each added to its input and normalised.
The decoder starts from the BERT's layers too; its cross-attention is a copy of their self-attention. It still has to
learn to attend to earlier positions only, and to write (`small_bart.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BartConfig, BartForConditionalGeneration

from wardround.errors import ModelError

__all__ = ["bart_from_bert", "only_the_decoder_learns", "spread"]

_RESERVED = 2  # rows of BART's position table before the first position

# The parts of a layer: BART's names, and BERT's.
_ATTENTION = {
    "q_proj": "attention.self.query",
    "k_proj": "attention.self.key",
    "v_proj": "attention.self.value",
    "out_proj": "attention.output.dense",
}
_PARTS: Mapping[str, str] = {
    **{f"self_attn.{ours}": theirs for ours, theirs in _ATTENTION.items()},
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}
_ACROSS: Mapping[str, str] = {
    **{f"encoder_attn.{ours}": theirs for ours, theirs in _ATTENTION.items()},
    "encoder_attn_layer_norm": "attention.output.LayerNorm",
}


def bart_from_bert(bert: Any, tokenizer: Any, *, decoder_layers: int, length: int) -> BartForConditionalGeneration:
    """Return a BART with the encoder `bert`, whose decoder has so many of its layers, evenly spaced."""
    sizes = bert.config
    if sizes.model_type != "bert":
        raise ModelError(f"the encoder has model type {sizes.model_type!r}; a BART can only be made from a BERT")
    if length > sizes.max_position_embeddings:
        raise ModelError(
            f"the encoder reads at most {sizes.max_position_embeddings} word pieces; {length} are requested"
        )
    if not 1 <= decoder_layers <= sizes.num_hidden_layers:
        raise ModelError(f"the encoder has {sizes.num_hidden_layers} layers; {decoder_layers} of them are requested")
    made = BartForConditionalGeneration(_configuration(sizes, tokenizer, decoder_layers, length))
    chosen = spread(decoder_layers, sizes.num_hidden_layers)
    with torch.no_grad():
        made.model.shared.weight.copy_(bert.embeddings.word_embeddings.weight)
        for side, layers in (("encoder", range(sizes.num_hidden_layers)), ("decoder", chosen)):
            _copy_side(getattr(made.model, side), bert, layers, _PARTS | (_ACROSS if side == "decoder" else {}))
    return made


def spread(count: int, layers: int) -> list[int]:
    """Return evenly spaced layers, including the highest: 3 of 6 are the second, fourth and sixth."""
    return [round((place + 1) * layers / count) - 1 for place in range(count)]


def only_the_decoder_learns(network: BartForConditionalGeneration) -> None:
    """Freeze the BERT's layers and the embeddings, which are also the output layer."""
    network.requires_grad_(False)
    network.model.decoder.requires_grad_(True)
    network.model.shared.requires_grad_(False)


def _configuration(sizes: Any, tokenizer: Any, decoder_layers: int, length: int) -> BartConfig:
    return BartConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.hidden_size,
        encoder_layers=sizes.num_hidden_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=sizes.num_attention_heads,
        decoder_attention_heads=sizes.num_attention_heads,
        encoder_ffn_dim=sizes.intermediate_size,
        decoder_ffn_dim=sizes.intermediate_size,
        activation_function=sizes.hidden_act,
        max_position_embeddings=length,
        bos_token_id=tokenizer.cls_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
        decoder_start_token_id=tokenizer.sep_token_id,
        forced_eos_token_id=tokenizer.sep_token_id,
    )


def _copy_side(side: nn.Module, bert: Any, layers: Sequence[int], parts: Mapping[str, str]) -> None:
    """Copy these layers of the BERT into the encoder or the decoder."""
    embeddings = bert.embeddings
    read = side.get_submodule("embed_positions").weight
    assert isinstance(read, Tensor)
    # With a single text, a BERT adds the same token-type embedding at every position.
    folded = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
    read[_RESERVED:].copy_(folded[: len(read) - _RESERVED])
    side.get_submodule("layernorm_embedding").load_state_dict(embeddings.LayerNorm.state_dict())
    for place, layer in enumerate(layers):
        for ours, theirs in parts.items():
            known = bert.encoder.layer[layer].get_submodule(theirs).state_dict()
            side.get_submodule(f"layers.{place}.{ours}").load_state_dict(known)
