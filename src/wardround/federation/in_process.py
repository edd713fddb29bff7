"""Every site in one process: deterministic, in bounded memory, through the same codec as a network."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from wardround.errors import FederationError, WardroundError
from wardround.federation.federation import Absence, Replies, Reply, SiteId, Traffic, code_of
from wardround.federation.message import Message, decode, encode
from wardround.federation.worker_process import BytesWorker, round_of

__all__ = ["InProcessFederation"]

_log = logging.getLogger(__name__)


class _Question(NamedTuple):
    step: str
    round: int
    data: bytes


class InProcessFederation:
    """Sites one after the other, in the order they are asked; at most `open_at_once` of them exist at a time.

    `ask` fixes the bytes of the question at once; a site works when its reply is consumed, and not before, so that
    one reply at a time is in memory. Replies that nobody consumes are work that nobody does.
    """

    def __init__(
        self, sites: Sequence[SiteId], open_site: Callable[[SiteId], BytesWorker], *, open_at_once: int = 16
    ) -> None:
        if open_at_once < 1:
            raise FederationError(f"open_at_once is {open_at_once}; one site at least must be open to answer")
        self._sites = tuple(sites)
        self._check_sites(self._sites)
        self._open_site = open_site
        self._open_at_once = open_at_once
        self._workers: dict[SiteId, BytesWorker] = {}

    @property
    def sites(self) -> Sequence[SiteId]:
        """Everybody in the study."""
        return self._sites

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Ask one site after the other; the question is encoded once, here."""
        asked = self._sites if to is None else tuple(to)
        self._check_sites(asked)
        return self._exchanges(asked, _Question(step, round_of(message), encode(message)))

    def close(self) -> None:
        """Close every worker, also where closing one of them fails; a later `ask` opens them again."""
        with ExitStack() as closing:
            while self._workers:
                closing.callback(self._workers.popitem()[1].close)

    def _check_sites(self, sites: Sequence[SiteId]) -> None:
        unknown = sorted(set(sites).difference(self._sites))
        if unknown:
            raise FederationError(f"{unknown[0]} is no site of this study")
        if len(set(sites)) < len(sites):
            raise FederationError("a site is named twice; each is asked once")

    def _exchanges(self, sites: Sequence[SiteId], question: _Question) -> Iterator[Reply]:
        for site in sites:
            # Outside the exchange: another site's state that cannot be laid aside is no absence of this one.
            self._make_room(site)
            yield self._exchange(site, question)

    def _exchange(self, site: SiteId, question: _Question) -> Reply:
        started = perf_counter()
        try:
            answer = self._worker(site).answer_bytes(question.step, question.round, question.data)
        except Exception as error:  # as at a site of its own, whatever goes wrong there is an absence here
            if not isinstance(error, WardroundError):
                _log.warning("site=%s step=%s failed: %s", site, question.step, _where(error))
            spent = Traffic(len(question.data), 0, perf_counter() - started)
            return Reply(site, None, spent, Absence.FAILED, code_of(error))
        spent = Traffic(len(question.data), len(answer), perf_counter() - started)
        return Reply(site, decode(answer), spent)

    def _make_room(self, site: SiteId) -> None:
        """Close the worker opened last: where all sites are asked in turn, the earlier ones are wanted sooner."""
        while site not in self._workers and len(self._workers) >= self._open_at_once:
            self._workers.popitem()[1].close()

    def _worker(self, site: SiteId) -> BytesWorker:
        if site not in self._workers:
            self._workers[site] = self._open_site(site)
        return self._workers[site]


def _where(error: Exception) -> str:
    """Class and place of an unforeseen error; its text is withheld, for it might quote a note."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
