"""From pieces and their places to sentences: those whose states fit the gradient of the second attention layer.

What enters the second layer depends on the whole sentence. A sentence that was there lies in the span of that layer's
gradient at every place; one that is put together wrongly does not. An encoder reads in both directions, so sentences
cannot be built from left to right: the search starts from random choices among the pieces that passed the first test at
each place, and improves one place after the other.
"""

from __future__ import annotations

import numpy as np
import torch

from wardround.privacy.audit.readers import PieceReader
from wardround.privacy.audit.span import Passed, Span

__all__ = ["assemble"]

_STARTS = 8  # searches for each length
_PASSES = 3  # over all places
_CHOICES = 8  # pieces considered at a place
_LENGTHS = 12  # lengths that are tried


def assemble(reader: PieceReader, first: Span, second: Span, passed: Passed, *, highest: float) -> set[tuple[int, ...]]:
    """Return the sentences that fit best, at most a few for each length; special pieces are part of them.

    Args:
        reader: of the model.
        first: span of the first attention layer, with which the ends of sentences are found.
        second: span of the second attention layer.
        passed: distances of pieces and places from the first span.
        highest: the distance up to which a pair of piece and place is believed.
    """
    believed = passed.pair_distances <= highest
    choices: dict[int, list[int]] = {}
    for place in np.unique(passed.places[believed]):
        here = believed & (passed.places == place)
        order = np.argsort(passed.pair_distances[here], kind="stable")
        choices[int(place)] = passed.tokens[here][order][:_CHOICES].tolist()
    begin, end = reader.prefix, reader.suffix
    if not choices or not end:
        return set()
    (_, ends), *_ = reader.inputs(np.array(end[:1]), max(choices) + 2)
    fits = np.flatnonzero(first.distances(ends[0]).numpy() <= highest).tolist()
    found = set[tuple[int, ...]]()
    for last in [place for place in fits if place > len(begin)][:_LENGTHS]:
        places = range(len(begin), last)
        if all(place in choices for place in places):
            found |= _search(reader, second, begin, [choices[place] for place in places], end)
    return found


def _search(
    reader: PieceReader, span: Span, begin: list[int], choices: list[list[int]], end: list[int]
) -> set[tuple[int, ...]]:
    random = np.random.default_rng(0)
    starts = 1 if all(len(each) == 1 for each in choices) else _STARTS
    inner = np.stack([random.choice(each, starts) for each in choices], axis=1)
    middle = slice(len(begin), len(begin) + len(choices))
    sequences = torch.from_numpy(np.concatenate([_repeated(begin, starts), inner, _repeated(end, starts)], axis=1))
    for _ in range(_PASSES if starts > 1 else 0):
        before = sequences.clone()
        for place, tokens in enumerate(choices, start=middle.start):
            if len(tokens) > 1:
                tried = sequences.repeat_interleave(len(tokens), dim=0)
                tried[:, place] = torch.tensor(tokens).repeat(starts)
                distances = span.distances(reader.entering_second(tried)).mean(dim=1)
                best = distances.reshape(starts, len(tokens)).argmin(dim=1)
                sequences[:, place] = torch.tensor(tokens)[best]
        if torch.equal(before, sequences):
            break
    return set(map(tuple, sequences.tolist()))


def _repeated(pieces: list[int], times: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.tile(np.array(pieces, dtype=np.int64), (times, 1))
