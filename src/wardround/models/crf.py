"""Linear-chain conditional random field: exact likelihood, marginals, Viterbi, and likelihood under partial labels.

The recursions run in probability space in float64, rescaled every few words: one small matrix product per word for both
directions at once. The gradient comes from the marginals, not from tracing the loop. If scores are too far apart for
float64, the same quantity is computed in log space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from wardround.models.blocks import reversal
from wardround.text.tag_schemes import TagScheme

__all__ = ["FORBIDDEN", "LinearChainCrf", "Posterior", "legal_transitions", "viterbi"]

FORBIDDEN = -1e6  # far below any legal path, but finite so that gradients stay finite
# Messages are rescaled after this many words: a rescaling costs as much as a word.
_RESCALED_EVERY = 4
# Largest difference between the scores of a batch. Any tag can follow any other within four words, so a message may
# contain values that are exp(4 * 75) times less likely, in addition to four words without rescaling: float64 can hold
# both. With larger differences, a message could lose the path that wins in the end.
_LARGEST_SPREAD = 75.0


class Posterior(NamedTuple):
    """Expected counts under a distribution over tags: of each tag at each word, and of each pair of neighbours."""

    words: Tensor  # [batch, words, tags], zero at padding
    steps: Tensor  # [batch, from, to], summed over the sentence


def legal_transitions(tags: Sequence[str], scheme: TagScheme) -> tuple[Tensor, Tensor, Tensor]:
    """Return boolean tables (start [tags], step [from, to], end [tags]) of what `scheme` allows."""
    start = torch.tensor([scheme.may_follow(None, tag) for tag in tags])
    step = torch.tensor([[scheme.may_follow(left, right) for right in tags] for left in tags])
    end = torch.tensor([scheme.may_follow(tag, None) for tag in tags])
    return start, step, end


class LinearChainCrf(nn.Module):
    """Scores of a tag at the start, after another tag, and at the end; illegal ones are fixed far below all others."""

    independent = False

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
        """Return the start, step and end scores, with illegal ones set to `forbidden`."""
        return (
            self.start.masked_fill(~self.legal_start, forbidden),
            self.step.masked_fill(~self.legal_step, forbidden),
            self.end.masked_fill(~self.legal_end, forbidden),
        )

    def log_likelihood(self, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Return log p(tags | sentence) of each sentence.

        `emissions` [batch, words, tags], `mask` [batch, words] True for words (no gaps), `tags` [batch, words].
        """
        start, step, end = self.scores()
        last = tags.gather(1, (mask.sum(1, keepdim=True) - 1))[:, 0]
        words = emissions.gather(2, tags[:, :, None])[:, :, 0] * mask
        steps = step[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
        path = start[tags[:, 0]] + words.sum(1) + steps.sum(1) + end[last]  # unnormalised log score, [batch]
        return path - _log_partition(emissions, mask, start, step, end)

    def partial_log_likelihood(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """Return the log probability that every word's tag is one of its `allowed` [batch, words, tags] ones."""
        scores = self.scores()
        inside = emissions.masked_fill(~allowed, FORBIDDEN)
        return _log_partition(inside, mask, *scores) - _log_partition(emissions, mask, *scores)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return p(tag of a word | sentence), [batch, words, tags], without gradient; zero at padding."""
        with torch.no_grad():
            scores = self.scores()
            if _fits_float64(emissions, mask, *scores):
                return _Recursions(emissions, mask, *scores).marginals().to(emissions.dtype)
        return _posterior_in_log_space(emissions, mask, *scores).words.to(emissions.dtype)

    def posterior(self, emissions: Tensor, mask: Tensor, allowed: Tensor) -> Posterior:
        """Return the expected tags and steps if every word's tag is one of its `allowed` ones; without gradient."""
        with torch.no_grad():
            scores, inside = self.scores(), emissions.masked_fill(~allowed, FORBIDDEN)
            if _fits_float64(inside, mask, *scores):
                found = _Recursions(inside, mask, *scores).posterior()
                if bool(found.words.isfinite().all()):  # otherwise the allowed tags leave no legal path
                    return Posterior(*(counts.to(emissions.dtype) for counts in found))
        found = _posterior_in_log_space(inside, mask, *scores)
        return Posterior(*(counts.to(emissions.dtype) for counts in found))

    def cross_entropy(self, emissions: Tensor, mask: Tensor, teacher: Posterior, allowed: Tensor) -> Tensor:
        """Return −Σ q(tags) log p(tags | each of them allowed) of each sentence, over whole sequences.

        The sum is exact: a chain's score is a sum over words and steps, so the expectations of those under q suffice.
        """
        start, step, end = self.scores()
        inside = _log_partition(emissions.masked_fill(~allowed, FORBIDDEN), mask, start, step, end)
        last = teacher.words[torch.arange(len(mask), device=mask.device), mask.sum(1) - 1]
        edges = (teacher.words[:, 0] * start).sum(1) + (last * end).sum(1)
        return inside - (teacher.words * emissions).sum((1, 2)) - (teacher.steps * step).sum((1, 2)) - edges

    def best(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the most probable tags, [batch, words]; 0 at padding."""
        return viterbi(emissions, mask, *self.scores(-torch.inf))


class _Recursions:
    """Forward and backward messages of a batch, [words, batch, tags], including each word's own weight.

    Backward messages run over each sentence reversed within its length, so that both directions use the same loop from
    left to right and padding is never read.
    """

    def __init__(self, emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> None:
        scores = emissions.detach()
        self.mask, self.lengths = mask, mask.sum(1)
        self.last = self.lengths - 1, torch.arange(len(mask), device=mask.device)  # each sentence's last word
        # The highest score is subtracted so that exp() cannot overflow, and added to log Z at the end.
        self.peak = scores.masked_fill(~mask[:, :, None], FORBIDDEN).max()
        self.start, self.step, self.end = (edge.detach().double().exp() for edge in (start, step, end))
        # Rows of a [words * batch] table, each sentence reversed within its length.
        order = (reversal(mask).t() * len(mask) + self.last[1]).flatten()
        both = scores.new_empty(mask.shape[1], 2, len(mask), scores.shape[2], dtype=torch.float64)
        both[:, 0].copy_(scores.transpose(0, 1)).sub_(self.peak).clamp_(max=0.0).exp_()
        both[:, 1] = _reordered(both[:, 0], order)
        self.scales = self._pass_messages(both)
        self.forward, self.backward = both[:, 0], _reordered(both[:, 1], order)
        # The product of the messages before each word (including its own weight) and after it.
        self.sides = torch.cat([self.backward[1:] @ self.step.t(), self.end.expand_as(self.backward[:1])])
        self.sides[self.last] = self.end
        self.sides.mul_(self.forward)
        self.mass = self.sides.sum(2, keepdim=True)

    def _pass_messages(self, weights: Tensor) -> Tensor:
        """Turn weights [words, 2, batch, tags] into messages in place; return the forward scales [words, batch]."""
        directions = torch.stack([self.step, self.step.t()]).contiguous()
        scales = weights.new_ones(len(weights), 2, weights.shape[2], 1)
        incoming = torch.stack([self.start, self.end])[:, None].expand(weights.shape[1:]).contiguous()
        for position, message in enumerate(weights.unbind(0)):
            message.mul_(incoming)
            if position % _RESCALED_EVERY == 0:
                torch.sum(message, 2, keepdim=True, out=scales[position])
                message.div_(scales[position])
            torch.bmm(message, directions, out=incoming)
        return scales[:, 0, :, 0]

    def log_partition(self) -> Tensor:
        """Return log Z of each sentence."""
        closing = self.mass[self.last][:, 0].log()
        inside = self.scales.log().t().masked_fill(~self.mask, 0.0).sum(1)
        return inside + closing + self.peak * self.lengths

    def marginals(self) -> Tensor:
        """Return tag marginals [batch, words, tags], zero at padding."""
        return (self.sides / self.mass).masked_fill_(~self.mask.t()[:, :, None], 0.0).transpose(0, 1)

    def posterior(self) -> Posterior:
        """Return the marginals, and those of pairs summed over each sentence."""
        return Posterior(self.marginals(), torch.einsum("wbi,wbj->bij", *self.step_parts()) * self.step)

    def step_parts(self) -> tuple[Tensor, Tensor]:
        """Return factors [words - 1, batch, tags] whose outer product times `step` is the pair marginal."""
        right = (self.backward[1:] / self.mass[:-1]).masked_fill_(~self.mask.t()[1:, :, None], 0.0)
        return self.forward[:-1], right


def _reordered(table: Tensor, order: Tensor) -> Tensor:
    return table.flatten(0, 1).index_select(0, order).view_as(table)


class _LogPartition(torch.autograd.Function):
    """The function log Z with its gradient from the marginals: d log Z / d score = expected count."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
        recursions = _Recursions(emissions, mask, start, step, end)
        expected = (recursions.marginals().to(emissions.dtype), *recursions.step_parts(), recursions.step)
        ctx.save_for_backward(emissions, mask, start, step, end, *expected)
        return recursions.log_partition().to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the gradient itself will be differentiated
            return _traced_gradient(ctx.saved_tensors[:5], ctx.needs_input_grad, gradients[0])
        given, mask, *_, unary, left, right, step = ctx.saved_tensors
        upstream = gradients[0]  # [batch]
        emissions = unary * upstream[:, None, None]
        rows = torch.arange(len(upstream), device=upstream.device)
        ending = emissions[rows, mask.sum(1) - 1].sum(0)
        steps = step * (left * upstream[None, :, None]).flatten(0, 1).t().mm(right.flatten(0, 1))
        return emissions, None, emissions[:, 0].sum(0), steps.to(given.dtype), ending


def _traced_gradient(inputs: Sequence[Tensor], needed: Sequence[bool], upstream: Tensor) -> tuple[Tensor | None, ...]:
    """Return the same gradient as a graph, computed in log space."""
    needing = [tensor for tensor, need in zip(inputs, needed, strict=True) if need]
    emissions, mask, start, step, end = inputs
    total = _log_partition_in_log_space(emissions, mask, start, step, end)
    found = iter(torch.autograd.grad(total, needing, upstream, create_graph=True))
    return tuple(next(found) if need else None for need in needed)


def _log_partition(emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
    if _fits_float64(emissions, mask, start, step, end):
        result: Tensor = _LogPartition.apply(emissions, mask, start, step, end)  # type: ignore[no-untyped-call]
        if bool(torch.isfinite(result).all()):  # otherwise the allowed tags leave no legal path
            return result
    return _log_partition_in_log_space(emissions, mask, start, step, end)


def _fits_float64(emissions: Tensor, mask: Tensor, *edges: Tensor) -> bool:
    left = _LARGEST_SPREAD - _spread(torch.cat([scores.detach().flatten() for scores in edges]))
    low, high = emissions.detach().aminmax()
    if bool(high - low <= left):  # the cheap test, which nearly always suffices
        return True
    return bool(_spread(emissions.detach()[mask]) <= left)


def _spread(scores: Tensor) -> Tensor:
    """Return the highest minus the lowest score, ignoring forbidden ones."""
    return scores.amax() - scores.masked_fill(scores < FORBIDDEN / 2, torch.inf).amin()


def _log_partition_in_log_space(emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
    """Return log Z by one log-sum-exp per word: slower, for scores too far apart for float64."""
    kind = emissions.dtype
    emissions, start, step, end = (scores.double() for scores in (emissions, start, step, end))
    alpha = start + emissions[:, 0]
    for position in range(1, emissions.shape[1]):
        following = torch.logsumexp(alpha[:, :, None] + step, dim=1) + emissions[:, position]
        alpha = torch.where(mask[:, position, None], following, alpha)
    return torch.logsumexp(alpha + end, dim=1).to(kind)


def _posterior_in_log_space(emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Posterior:
    """Return the gradient of log Z, computed in log space, where scaled messages would underflow."""
    with torch.inference_mode(False), torch.enable_grad():
        free = emissions.detach().clone().double().requires_grad_()
        steps = step.detach().double().repeat(len(mask), 1, 1).requires_grad_()  # one for each sentence
        total = _log_partition_in_log_space(free, mask.clone(), start.detach().clone(), steps, end.detach().clone())
        # Sentences of one word have no steps, whose gradients are then zeros.
        return Posterior(*torch.autograd.grad(total.sum(), (free, steps), materialize_grads=True))


@torch.no_grad()
def viterbi(emissions: Tensor, mask: Tensor, start: Tensor, step: Tensor, end: Tensor) -> Tensor:
    """Return the path with the highest score, [batch, words]; 0 at padding."""
    best = start + emissions[:, 0]  # [batch, tags]: the best score of a path that ends here
    came_from = []
    identity = torch.arange(best.shape[1], device=best.device).expand_as(best)
    scores = best.new_empty((*best.shape, best.shape[1]))  # reused for all words: the allocator would keep freed memory
    for position in range(1, emissions.shape[1]):
        following, source = torch.add(best[:, :, None], step, out=scores).max(dim=1)
        inside = mask[:, position, None]
        best = torch.where(inside, following + emissions[:, position], best)
        came_from.append(torch.where(inside, source, identity))
    tag = (best + end).argmax(1, keepdim=True)
    path = [tag]
    for source in reversed(came_from):
        tag = source.gather(1, tag)
        path.append(tag)
    return torch.cat(path[::-1], dim=1).masked_fill(~mask, 0)
