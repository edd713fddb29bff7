"""Decoders from scores of words to tags of sentences: a CRF, or independent words under the scheme's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from wardround.models.crf import FORBIDDEN, LinearChainCrf, Posterior, legal_transitions, viterbi
from wardround.text.tag_schemes import TagScheme

__all__ = ["Decoder", "IndependentWords", "LinearChainCrf", "mention_probabilities"]

_MENTIONS_AT_ONCE = 256  # bounds the memory of their probabilities


class Decoder(Protocol):
    """The interface of decoders; shapes as in `LinearChainCrf`."""

    @property
    def independent(self) -> bool:
        """Return whether each word's tag is predicted independently of the others."""

    def log_likelihood(self, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Return log p(tags | sentence), [batch]."""

    def partial_log_likelihood(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Return log p(every tag is an allowed one | sentence), [batch]."""

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return p(tag | sentence) of each word, [batch, words, tags]."""

    def posterior(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Posterior:
        """Return the expected tags if each is an allowed one; without gradient."""

    def cross_entropy(self, emissions: Tensor, mask: Tensor, teacher: Posterior, allowed: Tensor) -> Tensor:
        """Return −Σ q(tags) log p(tags | each of them allowed), [batch]."""

    def best(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the most probable legal tags, [batch, words]."""


class IndependentWords(nn.Module):
    """A softmax for each word. It has no parameters; the best path is still restricted to legal ones."""

    independent = True

    forbidden_start: Tensor
    forbidden_step: Tensor
    forbidden_end: Tensor

    def __init__(self, tags: Sequence[str], scheme: TagScheme) -> None:
        super().__init__()
        for name, legal in zip(("start", "step", "end"), legal_transitions(tags, scheme), strict=True):
            scores = torch.zeros(legal.shape).masked_fill(~legal, -torch.inf)
            self.register_buffer(f"forbidden_{name}", scores, persistent=False)

    def log_likelihood(self, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Return the sum of each word's log probability."""
        chosen = emissions.log_softmax(2).gather(2, tags[:, :, None])[:, :, 0]
        return (chosen * mask).sum(1)

    def partial_log_likelihood(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Return the sum of each word's log probability of its allowed set."""
        inside = emissions.masked_fill(~allowed, FORBIDDEN).logsumexp(2) - emissions.logsumexp(2)
        return (inside * mask).sum(1)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the softmax; zero at padding."""
        return emissions.softmax(2) * mask[:, :, None]

    def posterior(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Posterior:
        """Return the softmax over the allowed tags, without steps."""
        words = self.marginals(emissions.detach().masked_fill(~allowed, FORBIDDEN), mask)
        return Posterior(words, words.new_zeros(len(words), 0, 0))

    def cross_entropy(self, emissions: Tensor, mask: Tensor, teacher: Posterior, allowed: Tensor) -> Tensor:
        """Return the sum over the words."""
        inside = emissions.masked_fill(~allowed, FORBIDDEN).logsumexp(2)
        return ((inside - (teacher.words * emissions).sum(2)) * mask).sum(1)

    def best(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the most probable legal tags."""
        return viterbi(emissions, mask, self.forbidden_start, self.forbidden_step, self.forbidden_end)


@torch.no_grad()
def mention_probabilities(
    decoder: Decoder,
    emissions: Tensor,  # [batch, words, tags]
    mask: Tensor,  # [batch, words]
    *,
    best: Tensor,  # [batch, words]: the decoded tags
    tags: Sequence[str],
    scheme: TagScheme,
) -> list[list[float]]:
    """Return, for each mention of the decoded tags, the probability that the sentence has exactly this mention.

    That is the probability of the mention's tags, of a tag before them that they do not continue, and of a tag after
    them that does not continue them. (IOB1 can also write a mention that touches another one with `B`; a mention that
    was decoded without it does not count that way.)
    """
    lengths = mask.sum(1).tolist()
    rows = [[tags[row] for row in sentence[:length]] for sentence, length in zip(best.tolist(), lengths, strict=True)]
    mentions = [(at, span) for at, sentence in enumerate(rows) for span in scheme.spans(sentence)]
    continues = torch.tensor([[scheme.continues(left, right) for right in tags] for left in tags])
    found: list[list[float]] = [[] for _ in rows]
    for start in range(0, len(mentions), _MENTIONS_AT_ONCE):
        chunk = mentions[start : start + _MENTIONS_AT_ONCE]
        allowed = torch.ones(len(chunk), *emissions.shape[1:], dtype=torch.bool, device=emissions.device)
        for number, (at, span) in enumerate(chunk):
            inside = best[at, span.start : span.end]
            allowed[number, span.start : span.end] = nn.functional.one_hot(inside, len(tags)).bool()
            if span.start > 0:
                allowed[number, span.start - 1] = ~continues[:, int(inside[0])].to(emissions.device)
            if span.end < lengths[at]:
                allowed[number, span.end] = ~continues[int(inside[-1])].to(emissions.device)
        of = torch.tensor([at for at, _ in chunk], device=emissions.device)
        likely = decoder.partial_log_likelihood(emissions[of], mask[of], allowed).exp().clamp(max=1.0)
        for (at, _), probability in zip(chunk, likely.tolist(), strict=True):
            found[at].append(probability)
    return found
