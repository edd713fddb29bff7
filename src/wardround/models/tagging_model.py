"""What every tagger is: words in, a score a tag out, a decoder on top, and its parameters in named groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

from wardround.errors import ModelError
from wardround.models.decoders import Decoder
from wardround.models.encoders import PieceBatch
from wardround.models.parameter_split import LayeredModel
from wardround.text.tag_schemes import SCHEMES, TagScheme
from wardround.text.tag_sets import TagSet

__all__ = ["Inputs", "TaggingModel"]


@dataclass(frozen=True)
class Inputs:
    """A batch of sentences as numbers; a model leaves None what it does not look at."""

    mask: Tensor  # [batch, words], True for words
    words: Tensor | None = None  # [batch, words]
    spellings: Tensor | None = None  # [distinct words, characters]
    spelled: Tensor | None = None  # [batch, words]: row of `spellings`
    pieces: PieceBatch | None = None

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        present = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(self, **{name: part.to(device) for name, part in present.items()})


class TaggingModel(LayeredModel):
    """A tagger over a tag set and a scheme."""

    tag_set: TagSet
    scheme: TagScheme

    def __init__(self, tag_set: TagSet, scheme: str) -> None:
        super().__init__()
        if scheme not in SCHEMES:
            raise ModelError(f"scheme is {scheme!r}; it can be {', '.join(SCHEMES)}")
        self.tag_set, self.scheme = tag_set, SCHEMES[scheme]
        self.tags = tag_set.tags(self.scheme)
        self.tag_rows = {tag: row for row, tag in enumerate(self.tags)}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The tags."""
        return self.tags

    @property
    def decoder(self) -> Decoder:
        """What turns scores into tags."""
        raise NotImplementedError

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Sentences of words as the tensors this model reads."""
        raise NotImplementedError

    def emissions(self, inputs: Inputs) -> Tensor:
        """A score a word and tag, [batch, words, tags]."""
        raise NotImplementedError

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Mean negative log likelihood of a sentence (FedNER, Eq. 1)."""
        return -self.decoder.log_likelihood(self.emissions(inputs).float(), inputs.mask, tags).mean()

    def partial_loss(self, inputs: Inputs, allowed: Tensor) -> Tensor:
        """Mean negative log likelihood where a word's tag is only known to be one of `allowed`."""
        return -self.decoder.partial_log_likelihood(self.emissions(inputs).float(), inputs.mask, allowed).mean()

    def decode(self, inputs: Inputs) -> list[list[str]]:
        """The best legal tags of each sentence."""
        best = self.decoder.best(self.emissions(inputs).float(), inputs.mask).tolist()
        lengths = inputs.mask.sum(1).tolist()
        return [[self.tags[row] for row in rows[:length]] for rows, length in zip(best, lengths, strict=True)]

    def marginals(self, inputs: Inputs) -> Tensor:
        """p(tag) of each word, [batch, words, tags]."""
        return self.decoder.marginals(self.emissions(inputs).float(), inputs.mask)
