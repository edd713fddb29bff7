"""Overlapping windows over sentences that are too long for an encoder, so that no word is cut off.

Words are placed by the number of word pieces that the encoder's tokenizer makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

__all__ = ["PieceLayout", "Window", "cut_windows", "lay_out_pieces"]


class Window(NamedTuple):
    """Words `[start, end)` that are encoded together; results are taken from it for words `[owns_from, owns_to)`."""

    start: int
    end: int
    owns_from: int
    owns_to: int


@dataclass(frozen=True)
class PieceLayout:
    """Windows over a sentence, and for each word (window, position of its first piece in that window)."""

    windows: tuple[Window, ...]
    first_piece: tuple[tuple[int, int] | None, ...]  # None: the tokenizer makes no piece of this word


def lay_out_pieces(piece_counts: Sequence[int], *, limit: int, overlap: int) -> PieceLayout:
    """Place words with these numbers of pieces in windows of at most `limit` pieces."""
    windows = cut_windows(piece_counts, limit=limit, overlap=overlap)
    first: list[tuple[int, int] | None] = [None] * len(piece_counts)
    for number, window in enumerate(windows):
        position = 0
        for word in range(window.start, window.end):
            if window.owns_from <= word < window.owns_to and piece_counts[word]:
                first[word] = (number, position)
            position += piece_counts[word]
    return PieceLayout(tuple(windows), tuple(first))


def cut_windows(piece_counts: Sequence[int], *, limit: int, overlap: int) -> list[Window]:
    """Cut words with these numbers of pieces into windows of at most `limit` pieces.

    Neighbouring windows share about `overlap` pieces. Each owns half of the shared words, so that the result for a word
    comes from the window in which it has the most context. A single word longer than `limit` gets its own window.
    """
    if not 0 <= overlap < limit:
        raise ValueError(f"overlap {overlap} must lie between 0 and the limit {limit}")
    words = len(piece_counts)
    before = [0, *accumulate(piece_counts)]  # number of pieces before each word
    bounds: list[tuple[int, int]] = []
    start = 0
    while start < words:
        end = start + 1
        while end < words and before[end + 1] - before[start] <= limit:
            end += 1
        bounds.append((start, end))
        if end == words:
            break
        # Go back as far as the overlap allows, but not so far that the word at `end` no longer fits.
        start = end
        while start > 0 and before[end] - before[start - 1] <= overlap and before[end + 1] - before[start - 1] <= limit:
            start -= 1
    middles = [(right[0] + left[1] + 1) // 2 for left, right in pairwise(bounds)]
    owned = [0, *middles, words]
    return [Window(*bound, owned[number], owned[number + 1]) for number, bound in enumerate(bounds)]
