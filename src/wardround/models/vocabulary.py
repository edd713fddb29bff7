"""From words and characters to numbers, without ever writing down a site's words.

A list of the words of a hospital's notes is itself a leak, so a model knows words in one of two ways: from a public
list (the words of pretrained vectors), or by hashing into buckets. Characters have a fixed table.
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
_REMEMBERED = 8_192  # words whose numbers are kept at hand: few enough that a stream of notes holds constant memory
_OTHER_CHARACTERS = 32  # buckets that every other character falls into
CHARACTERS = RESERVED + len(_CHARACTER_TABLE) + _OTHER_CHARACTERS


class WordIndex(Protocol):
    """A number for every word."""

    @property
    def size(self) -> int:
        """How many rows an embedding of it needs."""

    def __call__(self, word: str) -> int:
        """The row of `word`."""


@dataclass(frozen=True)
class HashedWords:
    """Every lower-cased word in one of `buckets` rows; the same at every site, with nothing to exchange."""

    buckets: int = 16_384

    @property
    def size(self) -> int:
        """Buckets, padding and unknown."""
        return self.buckets + RESERVED

    def __call__(self, word: str) -> int:
        """The bucket of the word with its digits levelled, so that `2019` and `1987` are one."""
        return RESERVED + _bucket(word.lower(), self.buckets)


class ListedWords:
    """The words of a public list, exact first, then lower-cased, else unknown."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._rows = {word: RESERVED + position for position, word in enumerate(self.words)}

    @property
    def size(self) -> int:
        """Words, padding and unknown."""
        return len(self.words) + RESERVED

    def __call__(self, word: str) -> int:
        """The row of the word."""
        return self._rows.get(word) or self._rows.get(word.lower(), UNKNOWN)


@lru_cache(maxsize=_REMEMBERED)
def spelling(word: str, longest: int = 32) -> tuple[int, ...]:
    """The characters of `word` as numbers; of a longer word, its beginning and its end."""
    if len(word) > longest:
        word = word[: longest // 2] + word[-(longest - longest // 2) :]
    return tuple(_CHARACTER_TABLE.get(character) or _other(character) for character in word)


def _other(character: str) -> int:
    return RESERVED + len(_CHARACTER_TABLE) + ord(character) % _OTHER_CHARACTERS


@lru_cache(maxsize=_REMEMBERED)
def _bucket(word: str, buckets: int) -> int:
    levelled = "".join("0" if character.isdigit() else character for character in word)
    return int.from_bytes(blake2b(levelled.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % buckets
