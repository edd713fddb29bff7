"""Frozen contextual embeddings of any encoder with a learned scalar mix, used where FedNER uses ELMo."""

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
    """Contextual embeddings of words; the encoder is fixed and public, so only the mix is trained, shared and saved."""

    def __init__(self, encoder: str, *, offline: bool = False) -> None:
        super().__init__()
        source = encoder_folder(encoder, offline=offline)
        self.tokenizer = PieceTokenizer(source)
        # In a tuple, so that torch does not register it as a submodule: it is neither trained nor saved.
        weights = Path(source) / "model.safetensors"
        self._frozen = (_frozen(source, weights.stat().st_mtime_ns if weights.is_file() else 0),)
        configuration = self._frozen[0].config
        self.width: int = configuration.hidden_size
        self.mix = ScalarMix(configuration.num_hidden_layers + 1)

    def forward(self, pieces: PieceBatch) -> Tensor:
        """Return the embeddings, [batch, words, width]."""
        if self._frozen[0].device != pieces.ids.device:  # another model in this process moved it
            self._frozen[0].to(pieces.ids.device)
        with torch.no_grad():
            output = self._frozen[0](pieces.ids, attention_mask=pieces.attention, output_hidden_states=True)
        mixed: Tensor = self.mix([pieces.gather(layer.float()) for layer in output.hidden_states])
        return mixed

    def fingerprint(self) -> str:
        """Return a digest of the frozen weights, so that a saved model detects another encoder of the same name."""
        digest = sha256()
        for name, tensor in sorted(self._frozen[0].state_dict().items()):
            if name.startswith("pooler."):
                continue  # never used, and random if the checkpoint has none
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._frozen[0]._apply(fn, recurse)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=2)
def _frozen(source: str, modified: int) -> Any:
    """Load an encoder once for all models of a process: it never changes, and a study on one machine has many sites.

    `modified` distinguishes a folder from earlier contents under the same name.
    """
    try:
        with torch.random.fork_rng(devices=[]):  # a missing layer is random, but only for the first model
            encoder = load_encoder_network(source)
    except UnloadableError as error:
        raise ModelError("the contextual encoder could not be loaded; name a Hugging Face id or folder") from error
    for parameter in encoder.parameters():
        parameter.requires_grad_(False)
    return encoder.eval()
