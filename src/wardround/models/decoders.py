"""Decoders from scores of words to tags of sentences: a CRF, or independent words under the scheme's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from wardround.models.crf import FORBIDDEN, LinearChainCrf, Posterior, legal_transitions, viterbi
from wardround.text.tag_schemes import TagScheme

__all__ = ["Decoder", "IndependentWords", "LinearChainCrf"]


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
