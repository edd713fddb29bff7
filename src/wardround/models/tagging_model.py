"""The base classes of models that find mentions in sentences.

`MentionModel` is what every such model shares: words in, one tag per word out, and a loss. `TaggingModel` scores every
tag of every word and has a decoder on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wardround.errors import ModelError
from wardround.models.crf import Posterior
from wardround.models.decoders import Decoder, mention_probabilities
from wardround.models.encoders import PieceBatch
from wardround.models.parameter_split import LayeredModel
from wardround.text.tag_schemes import SCHEMES, ScoredTags, TagScheme
from wardround.text.tag_sets import TagSet

__all__ = ["Inputs", "MentionModel", "SplitLoss", "TaggingModel", "allowed_tags", "tag_scoring"]


@dataclass(frozen=True)
class Inputs:
    """A batch of sentences as tensors; parts that a model does not read are None."""

    mask: Tensor  # [batch, words], True for words
    words: Tensor | None = None  # [batch, words]
    spellings: Tensor | None = None  # [distinct words, characters]
    spelled: Tensor | None = None  # [batch, words]: row of `spellings`
    pieces: PieceBatch | None = None

    def to(self, device: torch.device) -> Self:
        """Return a copy on another device."""
        present = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(self, **{name: part.to(device) for name, part in present.items()})


class SplitLoss(NamedTuple):
    """The loss of each sentence in parts that add up to that of its completed annotation (Wang 2023, Eq. 6 to 9)."""

    source: Tensor  # [batch]: of the site's own annotation
    target: Tensor  # [batch]: of the mentions that a teacher adds
    silence: Tensor  # [batch]: of the words where neither finds a mention


class MentionModel(LayeredModel):
    """A model that finds mentions of the types of a tag set, and gives them as tags of a scheme."""

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
        """Return the tags."""
        return self.tags

    @property
    def not_distillable(self) -> str:
        """Return why the model cannot be distilled: it has no scores of tags."""
        return "writes mentions and scores no tags"

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Convert sentences of words to the tensors that this model reads."""
        raise NotImplementedError

    def words_read(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """Return how many words of each sentence, counted from its start, the model reads: by default all."""
        return [len(sentence) for sentence in sentences]

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Return the mean negative log likelihood of the tags [batch, words] of a sentence."""
        raise NotImplementedError

    def split_loss(
        self, inputs: Inputs, local: Tensor, taught: Tensor | None, *, annotated: Tensor, outside: float = 0.0
    ) -> SplitLoss:
        """Return the loss of the annotation, of the mentions taught beside it, and of the absence of further ones.

        `local` [batch, words] are tags of the types that the site annotates (`annotated` [tags]), outside elsewhere;
        `taught` are the same completed with mentions of other types. Without them, nothing says that there are no
        further mentions: that part is weighted by `outside`.
        """
        raise NotImplementedError

    def decode(self, inputs: Inputs) -> list[list[str]]:
        """Return the best legal tags of each sentence."""
        raise NotImplementedError

    def decode_scored(self, inputs: Inputs) -> list[ScoredTags]:
        """Return the best legal tags of each sentence, with the probabilities of their mentions."""
        return list(map(ScoredTags, self.decode(inputs)))

    @torch.inference_mode()
    def tag_sentences(self, sentences: Sequence[Sequence[str]], *, scored: bool) -> list[ScoredTags]:
        """Return the best legal tags of each sentence; if `scored`, with the probabilities of their mentions."""
        self.eval()
        inputs = self.prepare(sentences).to(self.device)
        return self.decode_scored(inputs) if scored else list(map(ScoredTags, self.decode(inputs)))


class TaggingModel(MentionModel):
    """A model that scores every tag of every word; a decoder turns the scores into tags."""

    scores_tags = True

    @property
    def decoder(self) -> Decoder:
        """Return the decoder on top of the scores."""
        raise NotImplementedError

    @property
    def not_distillable(self) -> str:
        """Return why the model cannot be distilled, if its decoder does not treat words independently."""
        return "" if self.decoder.independent else "ends in a CRF"

    def emissions(self, inputs: Inputs) -> Tensor:
        """Return a score for each word and tag, [batch, words, tags]."""
        raise NotImplementedError

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Return the mean negative log likelihood of a sentence (FedNER, Eq. 1)."""
        return -self.decoder.log_likelihood(self.emissions(inputs).float(), inputs.mask, tags).mean()

    def split_loss(
        self, inputs: Inputs, local: Tensor, taught: Tensor | None, *, annotated: Tensor, outside: float = 0.0
    ) -> SplitLoss:
        """Return −log p of what the annotation allows, of the taught mentions given that, and of no more given both."""
        if taught is None:
            return self.posterior_loss(inputs, local, None, annotated=annotated, outside=outside)
        emissions, mask, allowed = self.emissions(inputs).float(), inputs.mask, allowed_tags(local, annotated)
        source = -self.decoder.partial_log_likelihood(emissions, mask, allowed)
        added = torch.where((taught > 0)[:, :, None], _one_hot(taught, len(annotated)), allowed)
        mentions = -self.decoder.partial_log_likelihood(emissions, mask, added)
        whole = -self.decoder.log_likelihood(emissions, mask, taught)
        if self.probes.wants_predictions:
            # With respect to a score, the gradient of −log p(tags) is p(tag), minus one for the tag that is there.
            (difference,) = torch.autograd.grad(whole.sum(), emissions, create_graph=True)
            self.probes.predicted((difference + _one_hot(taught, emissions.shape[2]))[taught != local])
        return SplitLoss(source, mentions - source, whole - mentions)

    def posterior_loss(
        self, inputs: Inputs, local: Tensor, taught: Posterior | None, *, annotated: Tensor, outside: float = 0.0
    ) -> SplitLoss:
        """Return the parts of `split_loss` where a distribution over completions is taught, or nothing."""
        emissions, mask, allowed = self.emissions(inputs).float(), inputs.mask, allowed_tags(local, annotated)
        source = -self.decoder.partial_log_likelihood(emissions, mask, allowed)
        nothing = torch.zeros_like(source)
        target = nothing if taught is None else self.decoder.cross_entropy(emissions, mask, taught, allowed)
        silence = -self.decoder.log_likelihood(emissions, mask, local) - source if outside else nothing
        return SplitLoss(source, target, outside * silence)

    def posterior(self, inputs: Inputs, local: Tensor, *, annotated: Tensor) -> Posterior:
        """Return the distribution that the model expects of a sentence's tags, given its annotation."""
        emissions = self.emissions(inputs).float()
        return self.decoder.posterior(emissions, inputs.mask, allowed_tags(local, annotated))

    def decode(self, inputs: Inputs) -> list[list[str]]:
        """Return the best legal tags of each sentence."""
        return self._tags_of(self.decoder.best(self.emissions(inputs).float(), inputs.mask), inputs.mask)

    def decode_scored(self, inputs: Inputs) -> list[ScoredTags]:
        """Return the best legal tags of each sentence, with the probabilities of their mentions."""
        emissions = self.emissions(inputs).float()
        best = self.decoder.best(emissions, inputs.mask)
        probabilities = mention_probabilities(
            self.decoder, emissions, inputs.mask, best=best, tags=self.tags, scheme=self.scheme
        )
        return list(map(ScoredTags, self._tags_of(best, inputs.mask), probabilities))

    def _tags_of(self, best: Tensor, mask: Tensor) -> list[list[str]]:
        lengths = mask.sum(1).tolist()
        return [[self.tags[row] for row in rows[:length]] for rows, length in zip(best.tolist(), lengths, strict=True)]

    def marginals(self, inputs: Inputs) -> Tensor:
        """Return p(tag) of each word, [batch, words, tags]."""
        return self.decoder.marginals(self.emissions(inputs).float(), inputs.mask)

    @torch.inference_mode()
    def tag_probabilities(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return the marginals of sentences of words, [batch, words, tags], without dropout."""
        self.eval()
        found: NDArray[np.float32] = self.marginals(self.prepare(sentences).to(self.device)).float().cpu().numpy()
        return found


def tag_scoring(model: LayeredModel) -> TaggingModel:
    """Return the model if it scores the tags of words; raise `ModelError` if it does not."""
    if not model.scores_tags:
        raise ModelError("this model does not score the tags of words; name an encoder or a preset instead")
    return cast(TaggingModel, model)


def allowed_tags(local: Tensor, annotated: Tensor) -> Tensor:
    """Return the tags that each word may have, [batch, words, tags], if only the `annotated` [tags] types are labelled.

    A word inside a mention has its own tag; any other word has any tag but those of the annotated types. The first tag
    is outside.
    """
    return torch.where((local > 0)[:, :, None], _one_hot(local, len(annotated)), ~annotated.to(local.device))


def _one_hot(tags: Tensor, count: int) -> Tensor:
    return torch.nn.functional.one_hot(tags, count).bool()
