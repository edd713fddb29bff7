"""Numbers of words and characters, without storing a site's words.

A list of the words of a hospital's notes would leak information, so a model identifies words in one of two ways: by a
public list (the words of pretrained vectors), or by hashing into buckets. Characters have a fixed table.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol

__all__ = ["CHARACTERS", "PADDING", "RESERVED", "UNKNOWN", "HashedWords", "ListedWords", "WordIndex", "spelling"]

PADDING, UNKNOWN = 0, 1
RESERVED = 2  # rows before the first word or character
_CHARACTER_TABLE = {
    character: RESERVED + position
    for position, character in enumerate(
        string.ascii_letters
        + string.digits
        + string.punctuation
        + "áéíóúñüàèìòùçâêîôûäëïößÁÉÍÓÚÑÜÀÈÇÄÖØøåÅæºª°µμαβγδκ±²³·–—‘’“”…"
    )
}
_CACHED_WORDS = 8_192  # cached words: bounded, so that a stream of notes needs constant memory
_OTHER_CHARACTERS = 32  # buckets of all other characters
CHARACTERS = RESERVED + len(_CHARACTER_TABLE) + _OTHER_CHARACTERS


class WordIndex(Protocol):
    """A mapping from words to rows of an embedding."""

    @property
    def size(self) -> int:
        """Return how many rows the embedding needs."""

    def __call__(self, word: str) -> int:
        """Return the row of `word`."""


@dataclass(frozen=True)
class HashedWords:
    """Lower-cased words hashed into `buckets` rows; the same at every site, without any exchange."""

    buckets: int = 16_384

    @property
    def size(self) -> int:
        """Return the number of buckets, with padding and unknown."""
        return self.buckets + RESERVED

    def __call__(self, word: str) -> int:
        """Return the bucket of the word; all digits count as the same, so that `2019` and `1987` share one."""
        return RESERVED + _bucket(word.lower(), self.buckets)


class ListedWords:
    """The words of a public list, matched exactly, then in lower case; other words are unknown."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._rows = {word: RESERVED + position for position, word in enumerate(self.words)}

    @property
    def size(self) -> int:
        """Return the number of words, with padding and unknown."""
        return len(self.words) + RESERVED

    def __call__(self, word: str) -> int:
        """Return the row of the word."""
        return self._rows.get(word) or self._rows.get(word.lower(), UNKNOWN)


@lru_cache(maxsize=_CACHED_WORDS)
def spelling(word: str, longest: int = 32) -> tuple[int, ...]:
    """Return the characters of `word` as numbers; for a long word, its beginning and its end."""
    if len(word) > longest:
        word = word[: longest // 2] + word[-(longest - longest // 2) :]
    first_other = RESERVED + len(_CHARACTER_TABLE)
    return tuple(_CHARACTER_TABLE.get(char) or first_other + ord(char) % _OTHER_CHARACTERS for char in word)


@lru_cache(maxsize=_CACHED_WORDS)
def _bucket(word: str, buckets: int) -> int:
    plain = "".join("0" if character.isdigit() else character for character in word)
    return int.from_bytes(blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % buckets
