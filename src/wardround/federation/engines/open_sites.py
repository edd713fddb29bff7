"""Sites that take turns in memory; the state of a closed site is on its disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from wardround.errors import FederationError, MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Data
from wardround.federation.worker_process import BytesWorker

__all__ = ["SEPARATOR", "OpenSites"]

SEPARATOR = "/"  # between a site and a step, if one process answers for several sites


class OpenSites:
    """Opens a site's worker when it is first needed; at most `open_at_once` of them exist at a time."""

    def __init__(self, open_site: Callable[[SiteId], BytesWorker], *, open_at_once: int = 16) -> None:
        if open_at_once < 1:
            raise FederationError(f"open_at_once is {open_at_once}; at least one site must be open to answer")
        self._open_site, self._open_at_once = open_site, open_at_once
        self._workers: dict[SiteId, BytesWorker] = {}

    def make_room(self, site: SiteId) -> None:
        """Close the worker opened last if too many are open: sites that were opened earlier are needed sooner."""
        while site not in self._workers and len(self._workers) >= self._open_at_once:
            self._workers.popitem()[1].close()

    def worker(self, site: SiteId) -> BytesWorker:
        """Return the site's worker."""
        if site not in self._workers:
            self._workers[site] = self._open_site(site)
        return self._workers[site]

    def answer_bytes(self, step: str, round_number: int, data: Data) -> bytes:
        """Do `site/step`, as one worker for all these sites."""
        site, separator, name = step.partition(SEPARATOR)
        if not separator:
            raise MessageError("step", "the step names no site")
        self.make_room(site)
        return self.worker(site).answer_bytes(name, round_number, data)

    def close(self) -> None:
        """Close every worker, even if closing one of them fails; a site that is needed later is opened again."""
        with ExitStack() as closing:
            while self._workers:
                closing.callback(self._workers.popitem()[1].close)
