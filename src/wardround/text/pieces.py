"""Words ↔ word pieces: where each word's pieces lie once a sentence is laid into an encoder's windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wardround.text.windows import Window, cut_windows

__all__ = ["PieceLayout", "lay_pieces"]


@dataclass(frozen=True)
class PieceLayout:
    """Windows over a sentence, and for each word (window, position of its first piece in it)."""

    windows: tuple[Window, ...]
    first_piece: tuple[tuple[int, int] | None, ...]  # None: the tokenizer makes no piece of this word


def lay_pieces(piece_counts: Sequence[int], *, limit: int, overlap: int) -> PieceLayout:
    """Lay words, given each one's number of pieces, into windows of at most `limit` pieces."""
    windows = cut_windows(piece_counts, limit=limit, overlap=overlap)
    first: list[tuple[int, int] | None] = [None] * len(piece_counts)
    for number, window in enumerate(windows):
        position = 0
        for word in range(window.start, window.end):
            if window.owns_from <= word < window.owns_to and piece_counts[word]:
                first[word] = (number, position)
            position += piece_counts[word]
    return PieceLayout(tuple(windows), tuple(first))
