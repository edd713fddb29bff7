"""The cost of a round: every exchange with every site, and the coordinator's own seconds by phase."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from wardround.federation.federation import Replies, Reply, SiteId, Traffic

__all__ = ["RoundCost"]


@dataclass
class RoundCost:
    """Collects the cost while a round runs; `phase` and `recorded` measure time."""

    exchanges: dict[str, dict[SiteId, Traffic]] = field(default_factory=dict)  # by step and site
    seconds: dict[str, float] = field(default_factory=dict)  # the coordinator's own, by phase
    _waited: float = 0.0  # for sites

    @property
    def total(self) -> Traffic:
        """Return the sum over all exchanges; seconds of sites that work in parallel are added."""
        return sum((cost for sites in self.exchanges.values() for cost in sites.values()), Traffic())

    def recorded(self, step: str, replies: Replies) -> Iterator[Reply]:
        """Yield the replies and count them; the time until a reply arrives counts as waiting, not as work."""
        while True:
            started = perf_counter()
            reply = next(replies, None)
            self._waited += perf_counter() - started
            if reply is None:
                return
            sites = self.exchanges.setdefault(step, {})
            sites[reply.site] = sites.get(reply.site, Traffic()) + reply.traffic
            yield reply

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of the enclosed work for this phase, without the time spent waiting for sites."""
        started, waited, others = perf_counter(), self._waited, sum(self.seconds.values())
        try:
            yield
        finally:
            passed = perf_counter() - started - (self._waited - waited)
            inner = sum(self.seconds.values()) - others  # of nested phases
            self.seconds[name] = self.seconds.get(name, 0.0) + max(0.0, passed - inner)
