"""Overlapping windows over a sentence too long for an encoder, so that nothing past its limit is lost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

__all__ = ["Window", "cut_windows"]


class Window(NamedTuple):
    """Words `[start, end)` are encoded together; of these, the window answers for `[owns_from, owns_to)`."""

    start: int
    end: int
    owns_from: int
    owns_to: int


def cut_windows(piece_counts: Sequence[int], *, limit: int, overlap: int) -> list[Window]:
    """Cut words, given each one's number of pieces, into windows of at most `limit` pieces.

    Neighbours share about `overlap` pieces and meet in the middle of what they share, so that each word is answered
    by the window in which it has the most context. A single word longer than `limit` gets a window of its own.
    """
    if not 0 <= overlap < limit:
        raise ValueError(f"overlap {overlap} must lie between 0 and the limit {limit}")
    before = [0, *accumulate(piece_counts)]
    bounds: list[tuple[int, int]] = []
    start = 0
    while start < len(piece_counts):
        end = _reach(before, start, limit)
        bounds.append((start, end))
        if end == len(piece_counts):
            break
        start = _next_start(before, end, limit=limit, overlap=overlap)
    return _with_owners(bounds)


def _reach(before: Sequence[int], start: int, limit: int) -> int:
    end = start + 1
    while end < len(before) - 1 and before[end + 1] - before[start] <= limit:
        end += 1
    return end


def _next_start(before: Sequence[int], end: int, *, limit: int, overlap: int) -> int:
    """As far back as the overlap allows, but not so far that the word at `end` no longer fits."""
    start = end
    while start > 0 and before[end] - before[start - 1] <= overlap and before[end + 1] - before[start - 1] <= limit:
        start -= 1
    return start


def _with_owners(bounds: Sequence[tuple[int, int]]) -> list[Window]:
    windows = []
    owned = 0
    for number, (start, end) in enumerate(bounds):
        last = number + 1 == len(bounds)
        owns_to = end if last else (bounds[number + 1][0] + end + 1) // 2
        windows.append(Window(start, end, owned, owns_to))
        owned = owns_to
    return windows
