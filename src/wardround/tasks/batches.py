"""Batches of sentences of like length, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

__all__ = ["in_length_order", "length_buckets"]

_POOL = 32  # batches that are sorted together: enough to pad little, few enough to keep epochs different


def length_buckets(lengths: Sequence[int], batch_size: int, seed: str) -> list[list[int]]:
    """Every index once, shuffled into batches whose lengths are close."""
    random = Random(seed)  # noqa: S311 – order, not secrecy
    order = list(range(len(lengths)))
    random.shuffle(order)
    pools = [order[start : start + _POOL * batch_size] for start in range(0, len(order), _POOL * batch_size)]
    batches = [batch for pool in pools for batch in _cut(sorted(pool, key=lambda i: lengths[i]), batch_size)]
    random.shuffle(batches)
    return batches


def in_length_order(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Every index once, shortest first: for prediction, where order does not matter."""
    return iter(_cut(sorted(range(len(lengths)), key=lambda i: lengths[i]), batch_size))


def _cut(items: Sequence[int], size: int) -> list[list[int]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]
