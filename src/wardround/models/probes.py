"""Points where an algorithm reads the states of a network, or adds to them, from outside.

A model that supports this holds one `Probes` object and calls it in its forward pass. Unless an algorithm is recording
or has attached a leaf, the calls do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["Probes", "StateRecorder"]


class StateRecorder:
    """The mean state of each sentence in each layer, as recorded in one forward pass."""

    def __init__(self, *, predictions: bool = False) -> None:
        self.layers: list[Tensor] = []  # [batch, width] for each layer of the encoder, bottom to top
        self.decoded: Tensor | None = None  # [batch, width]: the last layer of a decoder, if the model has one
        self.wants_predictions = predictions
        self.predicted: Tensor | None = None  # [words, classes]: p at every word, or output, of a taught mention

    @property
    def last(self) -> Tensor:
        """Return the sentences' states in the last layer below the outputs."""
        return self.layers[-1] if self.decoded is None else self.decoded


class Probes:
    """The recorded layers of one network, and the place where each sentence can have a leaf of its own.

    The gradient of a leaf is a sentence's gradient. With a prompt, the leaf replaces the prompt; otherwise it is added
    to every word of the sentence.
    """

    def __init__(self, *, widths: Sequence[int] = (), leaf_width: int = 0, prompt: Tensor | None = None) -> None:
        """Describe layers of `widths`; a leaf starts as a copy of `prompt`, or as `leaf_width` zeros.

        Without widths, the model supports neither recording nor leaves.
        """
        self.widths = tuple(widths)
        self.leaf: Tensor | None = None  # [batch, *leaf_shape] while attached
        self._leaf_width, self._prompt = leaf_width, prompt
        self._recorder: StateRecorder | None = None

    @property
    def leaf_shape(self) -> tuple[int, ...]:
        """Return the shape of one sentence's leaf."""
        return (self._leaf_width,) if self._prompt is None else tuple(self._prompt.shape)

    def fresh_leaves(self, sentences: int, device: torch.device) -> Tensor:
        """Return leaves that change no output, [sentences, *leaf_shape]."""
        if self._prompt is None:
            return torch.zeros(sentences, self._leaf_width, device=device)
        return self._prompt.detach().repeat(sentences, *(1 for _ in self._prompt.shape))

    @contextmanager
    def leaves(self, sentences: int, device: torch.device) -> Iterator[Tensor]:
        """Attach one fresh leaf per sentence, with gradients.

        cuDNN is off, because its recurrent layers compute gradients in training mode only.
        """
        self.leaf = self.fresh_leaves(sentences, device).requires_grad_()
        try:
            with torch.backends.cudnn.flags(enabled=False):
                yield self.leaf
        finally:
            self.leaf = None

    @contextmanager
    def recording(self, *, predictions: bool = False) -> Iterator[StateRecorder]:
        """Record the states of the next forward pass and, with `predictions`, those of taught mentions."""
        self._recorder = StateRecorder(predictions=predictions)
        try:
            yield self._recorder
        finally:
            self._recorder = None

    @property
    def is_recording(self) -> bool:
        """Return whether states are being recorded."""
        return self._recorder is not None

    @property
    def wants_predictions(self) -> bool:
        """Return whether predictions are being recorded."""
        return self._recorder is not None and self._recorder.wants_predictions

    def encoded(self, states: Tensor, mask: Tensor) -> None:
        """Record a layer of the encoder: states [batch, words, width], with words where `mask` is True."""
        if self._recorder is not None:
            self._recorder.layers.append(_mean(states, mask))

    def decoded(self, states: Tensor, mask: Tensor) -> None:
        """Record the last layer of a decoder, as in `encoded`."""
        if self._recorder is not None:
            self._recorder.decoded = _mean(states, mask)

    def predicted(self, probabilities: Tensor) -> None:
        """Record p(class) at every word, or output, of a taught mention, [words, classes]."""
        if self._recorder is not None:
            self._recorder.predicted = probabilities


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    counted = mask[:, :, None].to(states.dtype)
    return (states * counted).sum(1) / counted.sum(1).clamp(min=1.0)
