"""Guards: one word a block of a sealed update, by which whoever opens a sum tells that it is the sum it should be.

    guard of a block = a word of the site's own + <r, words of the block>   (mod modulus)

The site's own words and the vector r are key streams that only holders of the group key can derive, anew for each
exchange. Guards add up as words do: the guard of a sum is the sum of the listed sites' own words, and r times the
summed words. Who has no group key can put together neither another set of sites nor other words than were given, but
by guessing one number below the modulus. (A linear MAC over a universal hash, as of Carter and Wegman; Agrawal and
Boneh 2009 call it homomorphic.)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from wardround.federation.federation import SiteId
from wardround.federation.message import Array
from wardround.privacy import masks

__all__ = ["guards"]

_OWN, _VECTOR = b"wardround-guard-1\x00", b"wardround-guard-vector-1\x00"
_LIMB = 16  # bits; products of two, summed over a block, are exact in float64
_LIMBS = 3  # of a word, which has at most 48 bits
_BLOCKS_AT_ONCE = 64


def guards(
    group_key: bytes, words: Array, *, context: bytes, sites: Iterable[SiteId], payload: int, modulus: int
) -> Array:
    """The guards of words that these sites gave, or that are their sum; `payload` words are a block."""
    blocks = -(-len(words) // payload)
    total = _products(words, masks.stream(masks.derived(group_key, _VECTOR, context), payload, modulus), modulus)
    for site in sites:
        key = masks.derived(group_key, _OWN, context, site.encode("ascii"))
        masks.add(total, masks.stream(key, blocks, modulus), modulus)
    return total


def _products(words: Array, vector: Array, modulus: int) -> Array:
    """Of each block with the vector, modulo the modulus."""
    assert modulus <= 1 << (_LIMB * _LIMBS), "a word has more limbs"
    limbs = _limbs(vector)
    step = _BLOCKS_AT_ONCE * len(vector)
    parts = [_some(words[start : start + step], limbs, modulus) for start in range(0, len(words), step)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _some(words: Array, vector: Array, modulus: int) -> Array:
    """The same of a few blocks, the last of which may be short."""
    rows: Array = np.zeros((-(-len(words) // len(vector)), len(vector)), np.uint64)
    rows.reshape(-1)[: len(words)] = words
    total: Array = np.zeros(len(rows), object)  # whole numbers of any size
    for place in range(_LIMBS):
        limb = (rows >> np.uint64(_LIMB * place)) & np.uint64(2**_LIMB - 1)
        for other, column in enumerate((limb.astype(np.float64) @ vector).T):
            total += column.astype(np.uint64).astype(object) << (_LIMB * (place + other))
    return np.asarray(total % modulus, np.uint64)


def _limbs(vector: Array) -> Array:
    """[words, limbs], float64."""
    shifts = np.arange(_LIMBS, dtype=np.uint64) * np.uint64(_LIMB)
    limbs: Array = ((vector[:, None] >> shifts) & np.uint64(2**_LIMB - 1)).astype(np.float64)
    return limbs
