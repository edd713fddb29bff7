"""A shared half that a malicious coordinator builds so that an update shows single tokens (Boenisch et al. 2023).

The neurons of one layer get random weights, and biases so low that each neuron reacts to few tokens only. For a neuron
that reacted to one token, the gradient of its weights divided by that of its bias is the state of this token, however
many other tokens are in the batch. The attention below is switched off, so that the state of a token depends on the
token and its position alone, which the coordinator can compute for every token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wardround.models.parameter_split import LayeredModel
from wardround.privacy.audit.gradient_attacks import Attacked
from wardround.privacy.audit.readers import PieceReader, TokenReader
from wardround.privacy.audit.recovery import recover

__all__ = ["CRAFTED", "Trap", "trap_of"]

Array = np.ndarray[Any, Any]

CRAFTED = "crafted layer"
_QUANTILES = (0.9, 0.999)  # of the tokens, below which a neuron stays silent
_STEEP = 10.0  # deviations of a neuron's input: a smooth activation is then as good as off below its threshold
_PLACES = (1, 4, 8, 12)  # positions for which states are compared; the others are similar
_SAMPLE = 2_000  # tokens from which thresholds are taken


@dataclass(frozen=True)
class Trap:
    """The layer whose neurons are built, and what enters it."""

    weight: str
    bias: str
    switched_off: tuple[str, ...]  # parameters that are set to zero
    state: nn.Module  # from what enters the first layer to what enters this one
    dropout: float  # of what enters the first layer

    @torch.no_grad()
    def built(self, reader: TokenReader, shared: Mapping[str, Array]) -> dict[str, Array]:
        """Return the shared half with the layer built."""
        random = np.random.default_rng(0)
        count = min(_SAMPLE, len(reader.candidates))
        sample = np.sort(random.choice(reader.candidates, count, replace=False))
        states = torch.cat(
            [states.flatten(0, 1) for _, states in self._states(reader, sample, dropout=self.dropout)]
        ).numpy()
        weight, bias = shared[self.weight].copy(), shared[self.bias].copy()
        rows = random.normal(size=(len(bias), states.shape[1])).astype(np.float32)
        sums = states @ rows.T
        scale = _STEEP / sums.std(axis=0)
        cuts = 1 - np.geomspace(1 - _QUANTILES[0], 1 - _QUANTILES[1], len(bias))
        bias[:] = [-scale[j] * np.quantile(sums[:, j], cut) for j, cut in enumerate(cuts)]
        weight[:] = 0.0
        centre = (slice(None), slice(None), weight.shape[2] // 2) if weight.ndim == 3 else slice(None)
        weight[centre] = rows * scale[:, None]
        off = {name: np.zeros_like(shared[name]) for name in self.switched_off}
        return {**shared, **off, self.weight: weight, self.bias: bias}

    @torch.no_grad()
    def attack(self, reader: TokenReader, update: Mapping[str, Array], there: Iterable[int]) -> Attacked:
        """Return which tokens the gradients of the neurons show; `there` are those behind the update."""
        weight, bias = update[self.weight], update[self.bias]
        rows = weight[:, :, weight.shape[2] // 2] if weight.ndim == 3 else weight
        awake = np.abs(bias) > 0
        found = torch.from_numpy(rows[awake] / bias[awake, None]).float()
        scores = np.full(len(reader.candidates), np.inf)
        if len(found):
            seen = (found != 0).float()  # what dropout took from a token is exactly zero
            distances = [
                1 - _similarity(states, found, seen).amax(dim=(1, 2))
                for _, states in self._states(reader, reader.candidates)
            ]
            scores = torch.cat(distances).numpy().astype(np.float64)
        tokens, _ = recover(reader.candidates, scores, there)
        return Attacked(CRAFTED, tokens)

    def _states(
        self, reader: TokenReader, candidates: Array, *, dropout: float = 0.0
    ) -> Iterable[tuple[Array, Tensor]]:
        """Yield candidates with their states, [candidates, positions, width]."""
        longest = max(_PLACES) + 1 if isinstance(reader, PieceReader) else 1
        generator = torch.Generator().manual_seed(0)
        for chunk, inputs in reader.inputs(candidates, longest):
            chosen = inputs[:, list(_PLACES)] if longest > 1 else inputs
            kept = torch.rand(chosen.shape, generator=generator) >= dropout
            yield chunk, self.state(chosen * kept / (1 - dropout))


def trap_of(reader: TokenReader, model: LayeredModel, shared: Iterable[str]) -> Trap | None:
    """Return the layer of a model that can be built; None if it is not shared, or of another kind."""
    if isinstance(reader, PieceReader):
        layer = reader.first_layer
        dense = f"{layer}.attention.output.dense"
        off: tuple[str, ...] = (f"{dense}.weight", f"{dense}.bias")
        weight, state_path = f"{layer}.intermediate.dense", f"{layer}.attention.output.LayerNorm"
    else:
        off, weight, state_path = (), "word_cnn.convolution", ""
    needed = {f"{weight}.weight", f"{weight}.bias", *off}
    if not needed <= set(shared):
        return None
    state = model.get_submodule(state_path) if state_path else nn.Identity()
    return Trap(f"{weight}.weight", f"{weight}.bias", off, state, reader.dropout)


def _similarity(states: Tensor, found: Tensor, seen: Tensor) -> Tensor:
    """Return the cosine of each state and each found one, in the numbers that were seen, [.., states, found]."""
    lengths = (states.square() @ seen.T).sqrt() * torch.linalg.vector_norm(found, dim=1)
    cosines: Tensor = (states @ found.T) / lengths.clamp(min=1e-12)
    return cosines
