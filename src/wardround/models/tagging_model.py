"""What every tagger is: words in, a score a tag out, a decoder on top, and its parameters in named groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from wardround.errors import ModelError
from wardround.models.crf import Posterior
from wardround.models.decoders import Decoder
from wardround.models.discriminators import Discriminators, Watched
from wardround.models.encoders import PieceBatch
from wardround.models.parameter_split import LayeredModel, ParameterSplit
from wardround.text.tag_schemes import SCHEMES, TagScheme
from wardround.text.tag_sets import TagSet

__all__ = ["Inputs", "SplitLoss", "TaggingModel", "allowed_tags"]


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


class SplitLoss(NamedTuple):
    """The loss of each sentence in parts that add up to that of its completed annotation (Wang 2023, Eq. 6 to 9)."""

    source: Tensor  # [batch]: of what the site's own annotation says
    target: Tensor  # [batch]: of the mentions that a teacher adds to it
    silence: Tensor  # [batch]: of the words where neither finds any


class TaggingModel(LayeredModel):
    """A tagger over a tag set and a scheme."""

    tag_set: TagSet
    scheme: TagScheme
    probe: Tensor | None = None  # [batch, …]: while sentences are compared by their gradients, the leaf of each
    watched: Watched | None = None  # while somebody looks on: where a forward pass leaves its states
    discriminators: Discriminators | None  # what tells sites apart by those, in a study that wants it
    scores_tags: bool = True  # whether it gives every word a score a tag; a model that writes mentions does not

    def __init__(self, tag_set: TagSet, scheme: str) -> None:
        super().__init__()
        self.register_module("discriminators", None)
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
    def aside(self) -> tuple[str, ...]:
        """The layer groups that serve its training alone, and are no part of it when that has ended."""
        return () if self.discriminators is None else ("discriminators",)

    @property
    def watched_widths(self) -> tuple[int, ...]:
        """Of the encoder's layers whose states are watched, bottom to top; the last state is as wide as the top."""
        raise NotImplementedError

    def attach(self, discriminators: Discriminators) -> None:
        """Have sites told apart by its states; these layers are shared, whatever else is."""
        self.discriminators = discriminators
        self.split = ParameterSplit((*self.split.shared, *self.aside), self.split.private)

    @property
    def decoder(self) -> Decoder:
        """What turns scores into tags."""
        raise NotImplementedError

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Sentences of words as the tensors this model reads."""
        raise NotImplementedError

    def words_read(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """How many words of each sentence, from its beginning, this model reads: all, unless it says otherwise."""
        return [len(sentence) for sentence in sentences]

    def emissions(self, inputs: Inputs) -> Tensor:
        """A score a word and tag, [batch, words, tags]."""
        raise NotImplementedError

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Mean negative log likelihood of a sentence (FedNER, Eq. 1)."""
        return -self.decoder.log_likelihood(self.emissions(inputs).float(), inputs.mask, tags).mean()

    def partial_loss(self, inputs: Inputs, allowed: Tensor) -> Tensor:
        """Mean negative log likelihood where a word's tag is only known to be one of `allowed`."""
        return -self.decoder.partial_log_likelihood(self.emissions(inputs).float(), inputs.mask, allowed).mean()

    def split_loss(
        self,
        inputs: Inputs,
        local: Tensor,
        taught: Tensor | Posterior | None,
        *,
        annotated: Tensor,
        outside: float = 0.0,
    ) -> SplitLoss:
        """−log p of what the annotation allows, of the taught mentions given that, and of no more given both.

        `local` [batch, words] are tags of the types that the site annotates (`annotated` [tags]), outside elsewhere;
        `taught` are the same completed with mentions of other types, or a distribution over completions. Unless they
        are mentions, that there are no more is said by nobody: it counts as much as `outside`.
        """
        emissions, mask, allowed = self.emissions(inputs).float(), inputs.mask, allowed_tags(local, annotated)
        source = -self.decoder.partial_log_likelihood(emissions, mask, allowed)
        nothing = torch.zeros_like(source)
        if taught is None or isinstance(taught, Posterior):
            target = nothing if taught is None else self.decoder.cross_entropy(emissions, mask, taught, allowed)
            silence = -self.decoder.log_likelihood(emissions, mask, local) - source if outside else nothing
            return SplitLoss(source, target, outside * silence)
        added = torch.where((taught > 0)[:, :, None], _only(taught, len(annotated)), allowed)
        mentions = -self.decoder.partial_log_likelihood(emissions, mask, added)
        whole = -self.decoder.log_likelihood(emissions, mask, taught)
        if self.watched is not None and self.watched.predictions:
            self.watched.predicted = _marginals(whole, emissions, taught)[taught != local]
        return SplitLoss(source, mentions - source, whole - mentions)

    def posterior(self, inputs: Inputs, local: Tensor, *, annotated: Tensor) -> Posterior:
        """What this model expects of a sentence's tags, given its annotation."""
        emissions = self.emissions(inputs).float()
        return self.decoder.posterior(emissions, inputs.mask, allowed_tags(local, annotated))

    @property
    def probe_shape(self) -> tuple[int, ...]:
        """Of the part of `probe` that belongs to one sentence."""
        raise NotImplementedError

    def fresh_probe(self, sentences: int) -> Tensor:
        """A probe that changes nothing: what is added to every word of a sentence, all zero."""
        return torch.zeros(sentences, *self.probe_shape, device=self.device)

    def decode(self, inputs: Inputs) -> list[list[str]]:
        """The best legal tags of each sentence."""
        best = self.decoder.best(self.emissions(inputs).float(), inputs.mask).tolist()
        lengths = inputs.mask.sum(1).tolist()
        return [[self.tags[row] for row in rows[:length]] for rows, length in zip(best, lengths, strict=True)]

    def marginals(self, inputs: Inputs) -> Tensor:
        """p(tag) of each word, [batch, words, tags]."""
        return self.decoder.marginals(self.emissions(inputs).float(), inputs.mask)


def allowed_tags(local: Tensor, annotated: Tensor) -> Tensor:
    """What a word's tag may be, [batch, words, tags], where types other than the annotated ones were not looked for.

    Inside a mention it is its own; elsewhere any but those of the `annotated` [tags] types. The first tag is outside.
    """
    return torch.where((local > 0)[:, :, None], _only(local, len(annotated)), ~annotated.to(local.device))


def _marginals(losses: Tensor, emissions: Tensor, tags: Tensor) -> Tensor:
    """p(tag) of each word with its gradient, from −log p(tags) [batch] of any decoder.

    The gradient of that with respect to a score is p(tag), less one for the tag that is there.
    """
    (less,) = torch.autograd.grad(losses.sum(), emissions, create_graph=True)
    return less + _only(tags, emissions.shape[2])


def _only(tags: Tensor, count: int) -> Tensor:
    return torch.nn.functional.one_hot(tags, count).bool()
