"""The limits of the service: sizes, rates and waiting times, which keep one client from taking everything."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields

from wardround.errors import UsageError

__all__ = ["Limits", "RateLimit"]

_MOST_CLIENTS = 10_000  # addresses that are remembered; the one that was silent for longest is forgotten first


@dataclass(frozen=True)
class Limits:
    """What one request may contain, and how many requests are accepted."""

    body_bytes: int = 2_000_000
    text_characters: int = 100_000  # of one text
    documents: int = 256  # in one request
    rate: int = 6_000  # requests per minute from one address
    waiting: int = 1_024  # texts that wait for the model; further requests are refused
    batch: int = 64  # texts that the model reads at once
    body_seconds: float = 10.0  # for a body to arrive
    answer_seconds: float = 60.0  # for the model to answer

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise UsageError(f"the limit {field.name} is {getattr(self, field.name)}; it must be above zero")


class RateLimit:
    """A bucket of tokens for each address: a minute's requests may come at once, then they are refilled evenly."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: tokens left, and when

    def wait(self, address: str) -> float:
        """Count a request; return 0 if it is allowed, otherwise the seconds until one will be."""
        now = self._clock()
        left, seen = self._buckets.pop(address, (self._size, now))
        left = min(self._size, left + (now - seen) * self._size / 60)
        allowed = left >= 1
        self._buckets[address] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self._size
