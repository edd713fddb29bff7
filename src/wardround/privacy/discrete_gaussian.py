"""Discrete Gaussian noise on integers, drawn from a secret key.

The probability of the integer i is proportional to exp(−i² / 2σ²), where σ = 2^bits. Integers have no rounding that
could show which number the noise was added to, as the last digits of floating-point noise can (Mironov 2012).

The method is rejection (Karney 2016, Algorithm D). With i = ±(kσ + j), draw k with probability proportional to
exp(−k²/2), j uniformly below σ, and accept with probability exp(−x(2k + x)/2), where x = j/σ. Every comparison of a
uniform number with such a probability is decided in float64 where float64 is certain, and otherwise with further random
bits and decimal arithmetic. The probability of each integer is therefore exact to better than 2^-120.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache

import numpy as np

from wardround.federation.message import Array
from wardround.secure_aggregation.masks import derive_key, key_stream

__all__ = ["LARGEST_BITS", "discrete_gaussian", "uniform_sample"]

LARGEST_BITS = 20  # σ is at most 2^20, so that every product below is exact in int64 and float64
_LABEL = b"wardround-noise-1\x00"
_SAMPLE = b"wardround-sample-1\x00"
_BITS = 62  # of a uniform number
_ONE = 1 << _BITS
_UNSURE = 2.0**18  # of 2^62: many times the error of exp() in float64
_PRECISE = Context(prec=60)  # digits, about 200 bits
_LARGEST_K = 14  # beyond it, exp(−k²/2) is below 2^-124


def discrete_gaussian(key: bytes, count: int, *, bits: int) -> Array:
    """Return `count` independent numbers with σ = 2^bits as int64; a key must be used once."""
    assert 0 <= bits <= LARGEST_BITS, "σ is a power of two within the exact range"
    streams = _Streams(key)
    parts: list[Array] = []
    missing = count
    while missing:
        # About 71% are accepted; a few more than needed are drawn, so that two or three passes are enough.
        found = _accepted(streams, missing + missing // 2 + 16, bits)[:missing]
        parts.append(found)
        missing -= len(found)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def uniform_sample(key: bytes, count: int, rate: float) -> list[int]:
    """Return the numbers below `count` that a Poisson sample holds: each one independently with probability `rate`."""
    drawn = key_stream(derive_key(key, _SAMPLE), count, _ONE) if count else np.zeros(0, np.uint64)
    # Multiplying by a power of two is exact.
    return np.flatnonzero(drawn < np.uint64(int(rate * _ONE))).tolist()


class _Streams:
    """Uniform numbers; each call uses a key of its own."""

    def __init__(self, key: bytes) -> None:
        self._key, self._calls = key, 0

    def below(self, modulus: int, count: int) -> Array:
        self._calls += 1
        return key_stream(derive_key(self._key, _LABEL, self._calls.to_bytes(4, "big")), count, modulus)


def _accepted(streams: _Streams, tries: int, bits: int) -> Array:
    """Return the accepted ones of some candidates, in order."""
    sigma = 1 << bits
    k = _draw_k(streams, tries)
    low = streams.below(2 * sigma, tries)  # j, and the sign above it
    j, negative = (low & np.uint64(sigma - 1)).astype(np.int64), (low >> np.uint64(bits)).astype(bool)
    numerator = j * (2 * k * sigma + j)  # of x(2k + x)/2
    uniform = streams.below(_ONE, tries)
    # Exact division: the denominator is a power of two.
    threshold = np.exp(-numerator / float(2 * sigma * sigma)) * _ONE
    gap = threshold - uniform.astype(np.float64)
    accepted = gap > 0
    for place in np.flatnonzero(np.abs(gap) <= _UNSURE):
        exponent = _PRECISE.divide(Decimal(-int(numerator[place])), Decimal(2 * sigma * sigma))
        exact = (int(uniform[place]) << _BITS) + int(streams.below(_ONE, 1)[0])
        accepted[place] = exact < _scaled(_PRECISE.exp(exponent), 2)
    numbers = k * sigma + j
    accepted &= ~(negative & (numbers == 0))  # zero has one sign
    return np.where(negative, -numbers, numbers)[accepted]


def _draw_k(streams: _Streams, count: int) -> Array:
    """Return numbers k ≥ 0 with probability proportional to exp(−k²/2)."""
    sums = _cumulative()
    cells = np.array([_scaled(part, 1) for part in sums], np.uint64)
    uniform = streams.below(_ONE, count)
    found = np.searchsorted(cells, uniform, side="left").astype(np.int64)  # cells below the uniform number
    # A number in the same cell of 2^-62 as a bound is on one side or the other only with more digits.
    for place in np.flatnonzero(cells[np.minimum(found, len(cells) - 1)] == uniform):
        first = int(found[place])
        exact = (int(uniform[place]) << _BITS) + int(streams.below(_ONE, 1)[0])
        found[place] = first + sum(_scaled(part, 2) < exact for part in sums[first:])
    return found


@lru_cache(maxsize=1)
def _cumulative() -> tuple[Decimal, ...]:
    """Return Σ_{i≤k} exp(−i²/2) over the sum of all, for k = 0, 1, …"""
    weights = [_PRECISE.exp(_PRECISE.divide(Decimal(-k * k), Decimal(2))) for k in range(_LARGEST_K + 1)]
    total, running, sums = sum(weights, Decimal(0)), Decimal(0), list[Decimal]()
    for weight in weights[:-1]:
        running = _PRECISE.add(running, weight)
        sums.append(_PRECISE.divide(running, total))
    return tuple(sums)


def _scaled(probability: Decimal, words: int) -> int:
    """Return a probability as an integer of that many times 62 bits."""
    return int(_PRECISE.multiply(probability, Decimal(_ONE**words)))
