"""Every site in one process: deterministic, in bounded memory, through the same codec as a network."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol

from wardround.errors import MessageError, WardroundError
from wardround.federation.federation import Absence, Replies, Reply, SiteId, Traffic
from wardround.federation.message import Message, decode, encode

__all__ = ["InProcessFederation", "SiteWorker"]


class SiteWorker(Protocol):
    """A site at work: it answers steps and can lay its state aside."""

    def answer(self, step: str, message: Message) -> Message:
        """Do the step."""

    def close(self) -> None:
        """Put what must last on disk; the worker is not asked again."""


class InProcessFederation:
    """Sites one after the other, in the order they are asked; at most `open_at_once` of them exist at a time."""

    def __init__(
        self, sites: Sequence[SiteId], open_site: Callable[[SiteId], SiteWorker], *, open_at_once: int = 16
    ) -> None:
        self._sites = tuple(sites)
        self._open_site = open_site
        self._open_at_once = open_at_once
        self._workers: OrderedDict[SiteId, SiteWorker] = OrderedDict()

    @property
    def sites(self) -> Sequence[SiteId]:
        """Everybody in the study."""
        return self._sites

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Ask one site after the other; the question is encoded once."""
        question = encode(message)
        for site in self._sites if to is None else to:
            yield self._exchange(site, step, question)

    def close(self) -> None:
        """Close every worker."""
        while self._workers:
            self._workers.popitem(last=False)[1].close()

    def _exchange(self, site: SiteId, step: str, question: bytes) -> Reply:
        started = perf_counter()
        try:
            answer = encode(self._worker(site).answer(step, decode(question)))
        except WardroundError as error:
            code = error.code if isinstance(error, MessageError) else type(error).__name__
            spent = Traffic(len(question), 0, perf_counter() - started)
            return Reply(site, None, spent, Absence.FAILED, code)
        spent = Traffic(len(question), len(answer), perf_counter() - started)
        return Reply(site, decode(answer), spent)

    def _worker(self, site: SiteId) -> SiteWorker:
        if site not in self._workers:
            while len(self._workers) >= self._open_at_once:
                self._workers.popitem(last=False)[1].close()
            self._workers[site] = self._open_site(site)
        self._workers.move_to_end(site)
        return self._workers[site]
