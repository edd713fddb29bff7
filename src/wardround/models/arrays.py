"""Sentences of words as the arrays that networks read: rows of words, spellings, and word pieces in windows.

Nothing here imports torch: a network in PyTorch and the same network in ONNX read the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wardround.models.vocabulary import PADDING, WordIndex, spelling
from wardround.text.windows import PieceLayout, lay_out_pieces

__all__ = ["Mask", "PieceArrays", "PieceTable", "Rows", "WordArrays", "word_arrays", "word_mask"]

Rows: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

# The size of a table of spellings is rounded up to multiples of these, so that few shapes occur: a CPU keeps a compiled
# kernel for each shape it has seen.
_ROWS, _COLUMNS = 64, 4
_CACHED_WORDS = 100_000


class WordArrays(NamedTuple):
    """A batch of sentences for a network over words."""

    mask: Mask  # [batch, words], True for words
    words: Rows  # [batch, words]
    spelled: Rows  # [batch, words]: row of `spellings`
    spellings: Rows | None  # [distinct words, characters]


class PieceArrays(NamedTuple):
    """A batch of sentences as windows of word pieces."""

    ids: Rows  # [windows, pieces]
    attention: Rows  # [windows, pieces]
    first_piece: Rows  # [batch, words]: position of each word's first piece in the concatenated windows
    sentence: Rows  # [windows]: row of the window's sentence


def word_mask(sentences: Sequence[Sequence[str]]) -> Mask:
    """Return which places of the batch are words, [batch, words]."""
    lengths = np.array([len(sentence) for sentence in sentences])
    mask: Mask = np.arange(lengths.max())[None] < lengths[:, None]
    return mask


def word_arrays(sentences: Sequence[Sequence[str]], index: WordIndex, *, with_spellings: bool) -> WordArrays:
    """Return word rows, and the spelling of each distinct word once."""
    mask = word_mask(sentences)
    distinct = {word: row for row, word in enumerate(dict.fromkeys(w for s in sentences for w in s))}
    rows = np.fromiter(map(index, distinct), dtype=np.int64, count=len(distinct))
    spelled = np.zeros(mask.shape, dtype=np.int64)
    spelled[mask] = [distinct[word] for sentence in sentences for word in sentence]
    words = np.where(mask, rows[spelled], PADDING)
    return WordArrays(mask, words, spelled, _spellings(list(distinct)) if with_spellings else None)


def _spellings(words: Sequence[str]) -> Rows:
    spelled = [spelling(word) for word in words]
    rows = -(-len(words) // _ROWS) * _ROWS
    width = -(-max(map(len, spelled)) // _COLUMNS) * _COLUMNS
    table = np.full((rows, width), PADDING, dtype=np.int64)
    for row, characters in enumerate(spelled):
        table[row, : len(characters)] = characters
    return table


class PieceTable:
    """The word pieces of words, each asked of a tokenizer once, and sentences laid out in windows of them."""

    def __init__(
        self,
        pieces_of: Callable[[list[str]], Sequence[Sequence[int]]],
        *,
        prefix: Sequence[int],  # special pieces before the first word
        suffix: Sequence[int],  # and after the last
        limit: int,  # pieces of words in a window
        overlap: int,  # pieces that neighbouring windows share
        padding: int,
    ) -> None:
        self._pieces_of, self.prefix, self.suffix = pieces_of, list(prefix), list(suffix)
        self.limit, self.overlap, self.padding = limit, overlap, padding
        self._pieces: dict[str, Sequence[int]] = {}

    def encode(self, sentences: Sequence[Sequence[str]]) -> PieceArrays:
        """Convert sentences of words to windows; a sentence that fits is one window."""
        self._tokenize_new_words({word for sentence in sentences for word in sentence})
        layouts = [self._layout(sentence) for sentence in sentences]
        windows, rows = list[list[int]](), list[int]()
        for row, (sentence, layout) in enumerate(zip(sentences, layouts, strict=True)):
            for window in layout.windows:
                words = sentence[window.start : window.end]
                pieces = [piece for word in words for piece in self._pieces[word][: self.limit]]
                windows.append(self.prefix + pieces + self.suffix)
                rows.append(row)
        width = max(map(len, windows))
        ids = np.full((len(windows), width), self.padding, dtype=np.int64)
        attention = np.zeros((len(windows), width), dtype=np.int64)
        for number, pieces in enumerate(windows):
            ids[number, : len(pieces)] = pieces
            attention[number, : len(pieces)] = 1
        first_piece = np.zeros((len(sentences), max(map(len, sentences))), dtype=np.int64)
        start = 0
        for row, layout in enumerate(layouts):
            # A word without pieces has the first position of its sentence.
            places = [start + p[0] * width + len(self.prefix) + p[1] if p else start for p in layout.first_piece]
            first_piece[row, : len(places)] = places
            start += len(layout.windows) * width
        return PieceArrays(ids, attention, first_piece, np.array(rows, dtype=np.int64))

    def words_in_first_windows(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """Return the number of words in the first window of each sentence."""
        self._tokenize_new_words({word for sentence in sentences for word in sentence})
        return [self._layout(sentence).windows[0].end for sentence in sentences]

    def _layout(self, sentence: Sequence[str]) -> PieceLayout:
        counts = [min(len(self._pieces[word]), self.limit) for word in sentence]
        return lay_out_pieces(counts, limit=self.limit, overlap=self.overlap)

    def _tokenize_new_words(self, words: set[str]) -> None:
        if len(self._pieces) > _CACHED_WORDS:
            self._pieces.clear()  # bounded, so that a stream of notes needs constant memory
        fresh = sorted(words - self._pieces.keys())
        if fresh:
            # A tokenizer rejects half a surrogate pair, which JSON can bring into a text.
            spelled = [word.encode("utf-8", "replace").decode() for word in fresh]
            self._pieces.update(zip(fresh, self._pieces_of(spelled), strict=True))
