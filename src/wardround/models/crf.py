"""Linear-chain conditional random field: exact likelihood, marginals, Viterbi, and likelihood under partial labels.

The recursions run in probability space, rescaled at every word, in float64: one small matrix product a word, both
directions at once, and the gradient is read off the marginals instead of being traced through the loop. Where
scores lie further apart than float64 reaches, the same quantity is computed in log space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wardround.models.padding import reversal
from wardround.text.tag_schemes import TagScheme

__all__ = ["FORBIDDEN", "LinearChainCrf", "legal_transitions", "viterbi"]

FORBIDDEN = -1e6  # a score no legal path comes near, finite so that gradients stay numbers
# Messages are rescaled every so many words: a rescaling costs as much as a word.
_RESCALED_EVERY = 4
# How far apart the scores of a batch may lie. No tag is more than four words from any other, so a message holds what is
# exp(4 * 75) times less likely, on top of what four words without rescaling take away: both have a place in float64.
# Further apart, a message could lose the path that wins in the end.
_REACH = 75.0


def legal_transitions(tags: Sequence[str], scheme: TagScheme) -> tuple[Tensor, Tensor, Tensor]:
    """Boolean tables (start [tags], step [from, to], end [tags]) of what `scheme` allows."""
    start = torch.tensor([scheme.may_follow(None, tag) for tag in tags])
    step = torch.tensor([[scheme.may_follow(left, right) for right in tags] for left in tags])
    end = torch.tensor([scheme.may_follow(tag, None) for tag in tags])
    return start, step, end


class LinearChainCrf(nn.Module):
    """Scores of a tag at the start, after another, and at the end; illegal ones are fixed far below all others."""

    legal_start: Tensor
    legal_step: Tensor
    legal_end: Tensor

    def __init__(self, tags: Sequence[str], scheme: TagScheme | None = None) -> None:
        super().__init__()
        size = len(tags)
        self.start = nn.Parameter(torch.empty(size))
        self.step = nn.Parameter(torch.empty(size, size))  # [from, to]
        self.end = nn.Parameter(torch.empty(size))
        everything = (torch.ones(size), torch.ones(size, size), torch.ones(size))
        legal = legal_transitions(tags, scheme) if scheme else everything
        for name, table in zip(("legal_start", "legal_step", "legal_end"), legal, strict=True):
            self.register_buffer(name, table.bool(), persistent=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def scores(self, forbidden: float = FORBIDDEN) -> tuple[Tensor, Tensor, Tensor]:
        """Start, step and end scores with the illegal ones forbidden."""
        return (
            self.start.masked_fill(~self.legal_start, forbidden),
            self.step.masked_fill(~self.legal_step, forbidden),
            self.end.masked_fill(~self.legal_end, forbidden),
        )

    def log_likelihood(self, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Log p(tags | sentence) of each sentence.

        `emissions` [batch, words, tags], `mask` [batch, words] True for words (no gaps), `tags` [batch, words].
        """
        scores = self.scores()
        return _path_score(emissions, mask, tags, *scores) - _log_partition(emissions, mask, *scores)

    def partial_log_likelihood(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Log probability that every word's tag is one of its `allowed` [batch, words, tags] ones."""
        scores = self.scores()
        inside = emissions.masked_fill(~allowed, FORBIDDEN)
        return _log_partition(inside, mask, *scores) - _log_partition(emissions, mask, *scores)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """p(tag of a word | sentence), [batch, words, tags]; zero at padding. Carries no gradient."""
        with torch.no_grad():
            scores = self.scores()
            if _in_reach(emissions, mask, *scores):
                return _Recursions(emissions, mask, *scores).marginals().to(emissions.dtype)
        return _marginals_in_log_space(emissions, mask, *scores).to(emissions.dtype)

    def best(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The most probable tags, [batch, words]; 0 at padding."""
        with torch.no_grad():
            return viterbi(emissions, mask, *self.scores(-torch.inf))


class _Recursions:
    """Forward and backward messages of a batch, [words, batch, tags], a word's own weight included.

    Backward messages run over each sentence reversed within its length, so that both directions are the same loop
    from left to right and padding is never looked at.
    """

    def __init__(self, emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> None:
        scores = emissions.detach()
        self.mask, self.lengths = mask, mask.sum(1)
        self.last = self.lengths - 1, torch.arange(len(mask), device=mask.device)  # each sentence's last word
        # The highest score of a word is set aside so that exp() cannot overflow, and added to log Z again.
        self.peak = scores.masked_fill(~mask[:, :, None], FORBIDDEN).max()
        self.start, self.step, self.end = (edge.detach().double().exp() for edge in (start, step, end))
        order = _row_order(mask)
        both = scores.new_empty(mask.shape[1], 2, len(mask), scores.shape[2], dtype=torch.float64)
        both[:, 0].copy_(scores.transpose(0, 1)).sub_(self.peak).clamp_(max=0.0).exp_()
        both[:, 1] = _reordered(both[:, 0], order)
        self.scales = self._run(both)
        self.forward, self.backward = both[:, 0], _reordered(both[:, 1], order)
        # The two sides of each word: before it (its own weight included) and after it.
        self.sides = torch.cat([self.backward[1:] @ self.step.t(), self.end.expand_as(self.backward[:1])])
        self.sides[self.last] = self.end
        self.sides.mul_(self.forward)
        self.mass = self.sides.sum(2, keepdim=True)

    def _run(self, weights: Tensor) -> Tensor:
        """Turn weights [words, 2, batch, tags] into messages in place; the forward scales [words, batch]."""
        directions = torch.stack([self.step, self.step.t()]).contiguous()
        scales = weights.new_ones(len(weights), 2, weights.shape[2], 1)
        coming = torch.stack([self.start, self.end])[:, None].expand(weights.shape[1:]).contiguous()
        for position, message in enumerate(weights.unbind(0)):
            message.mul_(coming)
            if position % _RESCALED_EVERY == 0:
                torch.sum(message, 2, keepdim=True, out=scales[position])
                message.div_(scales[position])
            torch.bmm(message, directions, out=coming)
        return scales[:, 0, :, 0]

    def log_partition(self) -> Tensor:
        """log Z of each sentence."""
        closing = self.mass[self.last][:, 0].log()
        inside = self.scales.log().t().masked_fill(~self.mask, 0.0).sum(1)
        return inside + closing + self.peak * self.lengths

    def marginals(self) -> Tensor:
        """Tag marginals [batch, words, tags], zero at padding."""
        return (self.sides / self.mass).masked_fill_(~self.mask.t()[:, :, None], 0.0).transpose(0, 1)

    def step_parts(self) -> tuple[Tensor, Tensor]:
        """Left and right factors [words - 1, batch, tags] whose outer product times `step` is the pair marginal."""
        right = (self.backward[1:] / self.mass[:-1]).masked_fill_(~self.mask.t()[1:, :, None], 0.0)
        return self.forward[:-1], right


def _row_order(mask: Tensor) -> Tensor:
    """Rows of a [words * batch] table that reverse each sentence within its length."""
    words = reversal(mask).t()  # [words, batch]
    return (words * len(mask) + torch.arange(len(mask), device=mask.device)).flatten()


def _reordered(table: Tensor, order: Tensor) -> Tensor:
    return table.flatten(0, 1).index_select(0, order).view_as(table)


class _LogPartition(torch.autograd.Function):
    """log Z with its gradient from the marginals: d log Z / d score = expected count."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
        recursions = _Recursions(emissions, mask, start, step, end)
        expected = (recursions.marginals().to(emissions.dtype), *recursions.step_parts(), recursions.step)
        ctx.save_for_backward(emissions, mask, start, step, end, *expected)
        return recursions.log_partition().to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # somebody wants to differentiate the gradient
            return _traced_gradient(ctx.saved_tensors[:5], ctx.needs_input_grad, gradients[0])
        given, mask, *_, unary, left, right, step = ctx.saved_tensors
        upstream = gradients[0]  # [batch]
        emissions = unary * upstream[:, None, None]
        rows = torch.arange(len(upstream), device=upstream.device)
        ending = emissions[rows, mask.sum(1) - 1].sum(0)
        steps = step * (left * upstream[None, :, None]).flatten(0, 1).t().mm(right.flatten(0, 1))
        return emissions, None, emissions[:, 0].sum(0), steps.to(given.dtype), ending


def _traced_gradient(inputs: Sequence[Tensor], needed: Sequence[bool], upstream: Tensor) -> tuple[Tensor | None, ...]:
    """The same gradient as a graph, by way of log space."""
    wanted = [tensor for tensor, need in zip(inputs, needed, strict=True) if need]
    emissions, mask, start, step, end = inputs
    total = _log_partition_in_log_space(emissions, mask, start, step, end)
    found = iter(torch.autograd.grad(total, wanted, upstream, create_graph=True))
    return tuple(next(found) if need else None for need in needed)


def _log_partition(emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
    if _in_reach(emissions, mask, start, step, end):
        result: Tensor = _LogPartition.apply(emissions, mask, start, step, end)  # type: ignore[no-untyped-call]
        if bool(torch.isfinite(result).all()):  # it is not where the allowed tags leave no legal path
            return result
    return _log_partition_in_log_space(emissions, mask, start, step, end)


def _in_reach(emissions: Tensor, mask: Tensor, *edges: Tensor) -> bool:
    left = _REACH - _spread(torch.cat([scores.detach().flatten() for scores in edges]))
    low, high = emissions.detach().aminmax()
    if bool(high - low <= left):  # the cheap answer, and nearly always enough
        return True
    return bool(_spread(emissions.detach()[mask]) <= left)


def _spread(scores: Tensor) -> Tensor:
    """Highest less lowest, forbidden ones aside."""
    return scores.amax() - scores.masked_fill(scores < FORBIDDEN / 2, torch.inf).amin()


def _log_partition_in_log_space(emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
    """The same by log-sum-exp a word: slower, for scores too far apart for float64."""
    kind = emissions.dtype
    emissions, start, step, end = (scores.double() for scores in (emissions, start, step, end))
    alpha = start + emissions[:, 0]
    for position in range(1, emissions.shape[1]):
        following = torch.logsumexp(alpha[:, :, None] + step, dim=1) + emissions[:, position]
        alpha = torch.where(mask[:, position, None], following, alpha)
    return torch.logsumexp(alpha + end, dim=1).to(kind)


def _marginals_in_log_space(emissions: Tensor, mask: Tensor, *scores: Tensor) -> Tensor:
    """The gradient of log Z, whose own recursions survived where the scaled messages did not."""
    with torch.inference_mode(False), torch.enable_grad():
        free = emissions.detach().clone().double().requires_grad_()
        total = _log_partition_in_log_space(free, mask.clone(), *(score.clone().double() for score in scores))
        return torch.autograd.grad(total.sum(), free)[0]


def _path_score(
    emissions: Tensor, mask: Tensor, tags: Tensor, start: Tensor, step: Tensor, end: Tensor
) -> Tensor:  # the six tensors of one equation
    """Unnormalised log score of the given tags, [batch]."""
    last = tags.gather(1, (mask.sum(1, keepdim=True) - 1))[:, 0]
    words = emissions.gather(2, tags[:, :, None])[:, :, 0] * mask
    steps = step[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
    return start[tags[:, 0]] + words.sum(1) + steps.sum(1) + end[last]


def viterbi(emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
    """The path of the highest score, [batch, words]; 0 at padding."""
    best = start + emissions[:, 0]  # [batch, tags]: the best score of a path that ends here
    came_from = []
    identity = torch.arange(best.shape[1], device=best.device).expand_as(best)
    for position in range(1, emissions.shape[1]):
        following, source = (best[:, :, None] + step).max(dim=1)
        inside = mask[:, position, None]
        best = torch.where(inside, following + emissions[:, position], best)
        came_from.append(torch.where(inside, source, identity))
    tag = (best + end).argmax(1, keepdim=True)
    path = [tag]
    for source in reversed(came_from):
        tag = source.gather(1, tag)
        path.append(tag)
    return torch.cat(path[::-1], dim=1).masked_fill(~mask, 0)
