"""Frozen contextual embeddings of any encoder under a learned scalar mix: ELMo's place in FedNER."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wardround.errors import ModelError
from wardround.models.blocks import ScalarMix
from wardround.models.encoders import PieceBatch, PieceTokenizer, encoder_folder
from wardround.models.pretrained import UnloadableError, load_encoder_network

__all__ = ["ContextualEmbedding"]


class ContextualEmbedding(nn.Module):
    """The encoder is fixed and public, so only the mix is a parameter, is shared, is saved."""

    def __init__(self, encoder: str, *, offline: bool = False) -> None:
        super().__init__()
        source = encoder_folder(encoder, offline=offline)
        self.tokenizer = PieceTokenizer(source)
        # In a tuple, so that torch takes it for no submodule: it is neither trained nor saved.
        self._frozen = (_frozen(source, _stamp(source)),)
        configuration = self._frozen[0].config
        self.width: int = configuration.hidden_size
        self.mix = ScalarMix(configuration.num_hidden_layers + 1)

    def forward(self, pieces: PieceBatch) -> Tensor:
        """[batch, words, width]."""
        if self._frozen[0].device != pieces.ids.device:  # another model of this process took it along
            self._frozen[0].to(pieces.ids.device)
        with torch.no_grad():
            output = self._frozen[0](pieces.ids, attention_mask=pieces.attention, output_hidden_states=True)
        mixed: Tensor = self.mix([pieces.gather(layer.float()) for layer in output.hidden_states])
        return mixed

    def fingerprint(self) -> str:
        """A digest of the frozen weights, so that a saved model notices another encoder under the same name."""
        digest = sha256()
        for name, tensor in sorted(self._frozen[0].state_dict().items()):
            if name.startswith("pooler."):
                continue  # never read, and drawn at random where the checkpoint has none
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._frozen[0]._apply(fn, recurse)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=2)
def _frozen(source: str, stamp: int) -> Any:
    """One for all models of a process: nobody changes it, and a study on one machine has many sites.

    `stamp` tells a folder from what lay under its name before.
    """
    with torch.random.fork_rng(devices=[]):  # a missing layer is drawn at random, for the first model but not the next
        return _load_frozen(source)


def _stamp(source: str) -> int:
    weights = Path(source) / "model.safetensors"
    return weights.stat().st_mtime_ns if weights.is_file() else 0


def _load_frozen(source: str) -> Any:
    try:
        encoder = load_encoder_network(source)
    except UnloadableError as error:
        raise ModelError("the contextual encoder could not be loaded; name a Hugging Face id or folder") from error
    for parameter in encoder.parameters():
        parameter.requires_grad_(False)
    return encoder.eval()
