"""Mini-batches of examples of similar length, in an order that depends on a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

__all__ = ["length_buckets", "pad_batches", "pad_to_tokens"]

_POOL = 32  # batches that are sorted together: large enough to pad little, small enough that epochs differ


def length_buckets(lengths: Sequence[int], batch_size: int, seed: str) -> list[list[int]]:
    """Return every index once, shuffled into batches of similar length."""
    random = Random(seed)  # noqa: S311 – an order, not a secret
    order = list(range(len(lengths)))
    random.shuffle(order)
    batches = []
    for pool_start in range(0, len(order), _POOL * batch_size):
        pool = sorted(order[pool_start : pool_start + _POOL * batch_size], key=lambda index: lengths[index])
        batches += [pool[start : start + batch_size] for start in range(0, len(pool), batch_size)]
    random.shuffle(batches)
    return batches


def pad_batches(batches: Sequence[Sequence[int]], minimum_size: int) -> list[list[int]]:
    """Pad batches below `minimum_size` with earlier examples of the epoch, without repeats."""
    order = [index for batch in batches for index in batch]
    padded = []
    for batch in batches:
        missing = max(minimum_size - len(batch), 0)
        others = [index for index in order if index not in set(batch)] if missing else []
        padded.append([*batch, *others[:missing]])
    return padded


def pad_to_tokens(batches: Sequence[Sequence[int]], tokens: Sequence[int], minimum: int) -> list[list[int]]:
    """Pad batches with fewer than `minimum` tokens with further examples of the epoch, without repeats.

    A batch of all examples may have fewer; `tokens` are those of each example.
    """
    order = list(dict.fromkeys(index for batch in batches for index in batch))  # padded batches overlap
    padded = []
    for batch in batches:
        grown, held, total = list(batch), set(batch), sum(tokens[index] for index in batch)
        for index in order:
            if total >= minimum:
                break
            if index not in held:
                grown.append(index)
                total += tokens[index]
        padded.append(grown)
    return padded
