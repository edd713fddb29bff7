"""From scores a word to tags a sentence: a CRF, or independent words under the scheme's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from wardround.models.crf import FORBIDDEN, LinearChainCrf, Posterior, legal_transitions, viterbi
from wardround.text.tag_schemes import TagScheme

__all__ = ["Decoder", "IndependentWords", "LinearChainCrf"]


class Decoder(Protocol):
    """What both decoders do; shapes as in `LinearChainCrf`."""

    def log_likelihood(self, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Log p(tags | sentence), [batch]."""

    def partial_log_likelihood(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Log p(every tag among its allowed ones | sentence), [batch]."""

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """p(tag | sentence) of each word, [batch, words, tags]."""

    def posterior(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Posterior:
        """What tags are expected where each is among its allowed ones; without gradient."""

    def cross_entropy(self, emissions: Tensor, mask: Tensor, teacher: Posterior, allowed: Tensor) -> Tensor:
        """−Σ q(tags) log p(tags | each of them allowed), [batch]."""

    def best(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The most probable legal tags, [batch, words]."""


class IndependentWords(nn.Module):
    """A softmax a word. Nothing to learn; the best path is still held to the legal ones."""

    forbidden_start: Tensor
    forbidden_step: Tensor
    forbidden_end: Tensor

    def __init__(self, tags: Sequence[str], scheme: TagScheme) -> None:
        super().__init__()
        for name, legal in zip(("start", "step", "end"), legal_transitions(tags, scheme), strict=True):
            scores = torch.zeros(legal.shape).masked_fill(~legal, -torch.inf)
            self.register_buffer(f"forbidden_{name}", scores, persistent=False)

    def log_likelihood(self, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Sum of each word's log probability."""
        chosen = emissions.log_softmax(2).gather(2, tags[:, :, None])[:, :, 0]
        return (chosen * mask).sum(1)

    def partial_log_likelihood(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Sum of each word's log probability of its allowed set."""
        inside = emissions.masked_fill(~allowed, FORBIDDEN).logsumexp(2) - emissions.logsumexp(2)
        return (inside * mask).sum(1)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The softmax itself; zero at padding."""
        return emissions.softmax(2) * mask[:, :, None]

    def posterior(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Posterior:
        """The softmax over the allowed tags; of steps it knows nothing."""
        words = self.marginals(emissions.detach().masked_fill(~allowed, FORBIDDEN), mask)
        return Posterior(words, words.new_zeros(len(words), 0, 0))

    def cross_entropy(self, emissions: Tensor, mask: Tensor, teacher: Posterior, allowed: Tensor) -> Tensor:
        """Sum over the words."""
        inside = emissions.masked_fill(~allowed, FORBIDDEN).logsumexp(2)
        return ((inside - (teacher.words * emissions).sum(2)) * mask).sum(1)

    def best(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The most probable legal tags."""
        return viterbi(emissions, mask, self.forbidden_start, self.forbidden_step, self.forbidden_end)
