"""Batches for prediction: in the order of length, and in chunks of bounded size. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

__all__ = ["in_chunks", "in_length_order"]

Item = TypeVar("Item")


def in_length_order(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yield batches of all indices, shortest first: for prediction, where the order does not matter."""
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    return (order[start : start + batch_size] for start in range(0, len(order), batch_size))


def in_chunks(items: Iterable[Item], size: Callable[[Item], int], limit: int) -> Iterator[list[Item]]:
    """Group items until their sizes add up to `limit`; the last group may be smaller, or empty."""
    chunk, total = list[Item](), 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= limit:
            yield chunk
            chunk, total = [], 0
    yield chunk
