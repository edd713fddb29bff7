"""Limits on what a stranger, an address and a party of the study may use of the key service."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Limits", "Party", "PartySlots", "Throttle"]

_FEWEST_STRANGERS = 16  # even if the process may have few descriptors


@dataclass(frozen=True)
class Limits:
    """Limits of a key service; the defaults suit hundreds of sites, also behind one shared address."""

    # Connections that have not finished the TLS handshake. Above a limit new ones displace old ones, so that a party
    # that completes the handshake is served even if strangers share its address.
    strangers: int = 512
    strangers_per_address: int = 64
    handshake_seconds: float = 5.0
    # Connections after the handshake. Each party has its own slots; certificates that are not pinned share `unpinned`.
    per_party: int = 8
    unpinned: int = 64
    read_seconds: float = 5.0
    write_seconds: float = 20.0
    # Requests that a party may make at once, and then per second; each adds a line to the log.
    burst: int = 32
    requests_per_second: float = 2.0
    seconds_between_notes: float = 60.0  # in the log, about strangers, and about each party that asks too often

    @property
    def most_strangers(self) -> int:
        """Return `strangers`, or fewer if they would use more than half of the process's descriptors."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return self.strangers
        return min(self.strangers, max(_FEWEST_STRANGERS, most // 2))


class Party(NamedTuple):
    """The owner of slots and requests: one name. Forged certificates with that name are counted separately."""

    name: str  # empty for all names that the study does not have
    pinned: bool  # whether the certificate is known to be the party's own


class PartySlots:
    """Count the connections and requests of each party. For use by one thread."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._taken: Counter[Party] = Counter()
        self._buckets: dict[Party, tuple[float, float]] = {}  # tokens, each for one request, and when they were counted

    def take(self, party: Party) -> bool:
        """Take a slot; return False if the party has none left."""
        unpinned = sum(count for taken, count in self._taken.items() if not taken.pinned)
        if self._taken[party] >= self._limits.per_party or (not party.pinned and unpinned >= self._limits.unpinned):
            return False
        self._taken[party] += 1
        return True

    def release(self, party: Party) -> None:
        """Return a slot."""
        self._taken[party] -= 1

    def request(self, party: Party) -> bool:
        """Count a request; return False if the party makes too many."""
        now = self._clock()
        tokens, since = self._buckets.get(party, (self._limits.burst, now))
        tokens = min(self._limits.burst, tokens + (now - since) * self._limits.requests_per_second)
        allowed = tokens >= 1
        self._buckets[party] = (tokens - 1 if allowed else tokens, now)
        return allowed


class Throttle:
    """Allow one event per interval for each of a few subjects. For use by one thread."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._last: dict[str, float] = {}

    def allows(self, subject: str) -> bool:
        """Return whether enough time has passed since the last event that was allowed."""
        now = self._clock()
        if now - self._last.get(subject, float("-inf")) < self._seconds:
            return False
        self._last[subject] = now
        return True
