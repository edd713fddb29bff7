"""Reproducible random choices: streams identified by names, the same on every Python version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Stream", "portion"]

T = TypeVar("T")


def portion(*names: str | int) -> float:
    """Return a fixed number in [0, 1) for these names, independent of any stream."""
    return int.from_bytes(_digest(names)[:6], "big") / 2**48


class Stream:
    """Random choices that depend only on `names`.

    Only `random.Random.random` is guaranteed to stay the same between Python versions, so everything uses it.
    """

    def __init__(self, *names: str | int) -> None:
        self._names = names
        seed = int.from_bytes(_digest(names), "big")
        self._uniform = random.Random(seed).random  # noqa: S311 - not a secret

    def branch(self, name: str) -> Stream:
        """Return a separate stream; drawing from it does not change this one."""
        return Stream(*self._names, name)

    def below(self, limit: int) -> int:
        """Return a whole number in [0, limit)."""
        return int(self._uniform() * limit)

    def between(self, low: int, high: int) -> int:
        """Return a whole number in [low, high]."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._uniform() < probability

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


def _digest(names: tuple[str | int, ...]) -> bytes:
    return hashlib.blake2b("\x1f".join(map(str, names)).encode(), digest_size=16).digest()
