"""The best tags of a sentence and the probabilities of its mentions, in NumPy: as the decoders of `models`, exactly.

A CRF adds scores of a tag at the start, after another tag, and at the end. Without one, words are independent and only
the legal transitions of the scheme count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wardround.text.tag_schemes import ScoredTags, TagScheme

__all__ = ["Transitions", "decode", "marginals"]

Scores: TypeAlias = NDArray[np.float32]
Numbers: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

# Messages are kept as probabilities while the scores of a batch differ by no more than this; otherwise as logarithms.
# Any tag can follow any other within four words, so no message has values that are exp(4 · 75) apart.
_LARGEST_SPREAD = 75.0


@dataclass(frozen=True)
class Transitions:
    """Scores of tags at the start [tags], after another tag [from, to] and at the end [tags]; −inf if illegal."""

    start: Scores
    step: Scores
    end: Scores
    independent: bool = False  # illegal steps only limit the best tags; probabilities belong to each word alone

    @classmethod
    def legal(cls, tags: Sequence[str], scheme: TagScheme) -> Transitions:
        """Return the transitions of independent words."""
        zeros = [np.zeros(shape, dtype=np.float32) for shape in (len(tags), (len(tags), len(tags)), len(tags))]
        return cls(zeros[0], zeros[1], zeros[2]).limited(tags, scheme, independent=True)

    def limited(self, tags: Sequence[str], scheme: TagScheme, *, independent: bool = False) -> Transitions:
        """Return the transitions with −inf where the scheme forbids them."""
        start = np.array([scheme.may_follow(None, tag) for tag in tags])
        step = np.array([[scheme.may_follow(left, right) for right in tags] for left in tags])
        end = np.array([scheme.may_follow(tag, None) for tag in tags])
        never = np.float32(-np.inf)
        return Transitions(
            np.where(start, self.start, never),
            np.where(step, self.step, never),
            np.where(end, self.end, never),
            independent,
        )


def decode(
    emissions: Scores,  # [batch, words, tags]
    mask: Flags,  # [batch, words]
    transitions: Transitions,
    *,
    tags: Sequence[str],
    scheme: TagScheme,
    scored: bool,
) -> list[ScoredTags]:
    """Return the best legal tags of each sentence; if `scored`, with the probabilities of their mentions."""
    best = _viterbi(emissions, mask, transitions)
    lengths = mask.sum(1).tolist()
    rows = [[tags[row] for row in found[:length]] for found, length in zip(best.tolist(), lengths, strict=True)]
    if not scored:
        return list(map(ScoredTags, rows))
    probabilities = _probabilities(_Chances(emissions, mask, transitions), best, rows, tags=tags, scheme=scheme)
    return list(map(ScoredTags, rows, probabilities))


def marginals(emissions: Scores, mask: Flags, transitions: Transitions) -> Scores:
    """Return p(tag) of each word, [batch, words, tags]; zero at padding."""
    return _Chances(emissions, mask, transitions).marginals(mask)


def _viterbi(emissions: Scores, mask: Flags, transitions: Transitions) -> NDArray[np.int64]:
    """Return the path with the highest score, [batch, words]."""
    best = transitions.start + emissions[:, 0]  # [batch, tags]: the best score of a path that ends here
    came_from = []
    identity = np.broadcast_to(np.arange(best.shape[1]), best.shape)
    across = transitions.step.T[None]  # [1, to, from]
    for position in range(1, emissions.shape[1]):
        reached = best[:, None] + across
        source = reached.argmax(2)
        following = np.take_along_axis(reached, source[:, :, None], 2)[:, :, 0] + emissions[:, position]
        inside = mask[:, position, None]
        best = np.where(inside, following, best)
        came_from.append(np.where(inside, source, identity))
    tag = (best + transitions.end).argmax(1)[:, None]
    path = [tag]
    for source in reversed(came_from):
        tag = np.take_along_axis(source, tag, 1)
        path.append(tag)
    return np.concatenate(path[::-1], axis=1)


def _probabilities(
    chances: _Chances,
    best: NDArray[np.int64],
    rows: Sequence[Sequence[str]],
    *,
    tags: Sequence[str],
    scheme: TagScheme,
) -> list[list[float]]:
    """Return, for each mention of the decoded tags, the probability that the sentence has exactly this mention.

    That is the probability of the mention's tags, of a tag before them that they do not continue, and of a tag after
    them that does not continue them.
    """
    continues = np.array([[scheme.continues(left, right) for right in tags] for left in tags])
    found: list[list[float]] = []
    for at, sentence in enumerate(rows):
        found.append([])
        for start, end, _ in scheme.spans(sentence):
            inside = best[at, start:end]
            before = ~continues[:, inside[0]] if start > 0 else None
            after = ~continues[inside[-1]] if end < len(sentence) else None
            found[at].append(chances.of(at, start, inside, before=before, after=after))
    return found


class _Chances:
    """Probabilities of mentions, from forward and backward messages that all mentions of a batch share."""

    def __init__(self, emissions: Scores, mask: Flags, transitions: Transitions) -> None:
        self._emissions, self._transitions = emissions.astype(np.float64), transitions
        self._lengths = mask.sum(1)
        self._step = transitions.step.astype(np.float64)
        if transitions.independent:
            top = self._emissions.max(2, keepdims=True)
            self._words = self._emissions - top - np.log(np.exp(self._emissions - top).sum(2, keepdims=True))
            return
        spread = _spread(self._emissions[mask]) + max(
            _spread(table) for table in (transitions.start, self._step, transitions.end)
        )
        self._messages(mask, in_logarithms=not spread <= _LARGEST_SPREAD)

    def of(self, at: int, start: int, inside: NDArray[np.int64], *, before: Flags | None, after: Flags | None) -> float:
        """Return the probability of these tags from word `start` of a sentence, between neighbours that are allowed."""
        places = np.arange(start, start + len(inside))
        if self._transitions.independent:
            total = self._words[at, places, inside].sum()
            for place, allowed in ((start - 1, before), (start + len(inside), after)):
                if allowed is not None:
                    total += _log_sum(self._words[at, place, allowed])
            return float(min(1.0, np.exp(total)))
        total = self._emissions[at, places, inside].sum() + self._step[inside[:-1], inside[1:]].sum()
        if before is None:
            total += float(self._transitions.start[inside[0]])
        else:
            total += _log_sum((self._forward[at, start - 1] + self._step[:, inside[0]])[before])
        end = start + len(inside)
        if after is None:
            total += float(self._transitions.end[inside[-1]])
        else:
            total += _log_sum((self._step[inside[-1]] + self._emissions[at, end] + self._backward[at, end])[after])
        return float(min(1.0, np.exp(total - self._log_partition[at])))

    def marginals(self, mask: Flags) -> Scores:
        """Return p(tag) of each word, [batch, words, tags]; zero at padding."""
        if self._transitions.independent:
            logarithms = self._words
        else:
            logarithms = self._forward + self._backward - self._log_partition[:, None, None]
        found: Scores = (np.exp(logarithms) * mask[:, :, None]).astype(np.float32)
        return found

    def _messages(self, mask: Flags, *, in_logarithms: bool) -> None:
        """Compute log α (with the word's own score) and log β (without it), [batch, words, tags]."""
        words = self._emissions.shape[1]
        forward, backward = np.empty_like(self._emissions), np.empty_like(self._emissions)
        product = _log_product if in_logarithms else _scaled_product
        forward[:, 0] = self._transitions.start + self._emissions[:, 0]
        for place in range(1, words):
            following = product(forward[:, place - 1], self._step) + self._emissions[:, place]
            forward[:, place] = np.where(mask[:, place, None], following, forward[:, place - 1])
        end = self._transitions.end.astype(np.float64)
        backward[:, words - 1] = end
        for place in range(words - 2, -1, -1):
            earlier = product(backward[:, place + 1] + self._emissions[:, place + 1], self._step.T)
            backward[:, place] = np.where(mask[:, place + 1, None], earlier, end)
        self._forward, self._backward = forward, backward
        self._log_partition = np.array([_log_sum(row) for row in forward[:, -1] + end])


def _scaled_product(messages: Numbers, step: Numbers) -> Numbers:
    """Return log(exp(messages) · exp(step)) by one matrix product; each row is scaled by its highest message."""
    top = messages.max(1, keepdims=True)
    with np.errstate(divide="ignore"):  # a tag that nothing may precede
        found: Numbers = np.log(np.exp(messages - top) @ np.exp(step)) + top
    return found


def _log_product(messages: Numbers, step: Numbers) -> Numbers:
    """Return the same by one log-sum-exp for each tag, for scores that are too far apart."""
    return np.stack([[_log_sum(row + step[:, to]) for to in range(step.shape[1])] for row in messages])


def _log_sum(values: Numbers) -> float:
    """Return log Σ exp; −inf if there is nothing to add."""
    top = float(values.max(initial=-np.inf))
    return top if np.isinf(top) else top + float(np.log(np.exp(values - top).sum()))


def _spread(scores: NDArray[Any]) -> float:
    """Return the highest minus the lowest score, ignoring illegal ones."""
    finite = scores[np.isfinite(scores)]
    return float(finite.max() - finite.min()) if finite.size else 0.0
