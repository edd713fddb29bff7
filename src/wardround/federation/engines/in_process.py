"""Every site on one machine: deterministic, in bounded memory, through the same codec as a network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from queue import Queue
from time import perf_counter
from typing import NamedTuple

from wardround.errors import FederationError, WardroundError
from wardround.federation.engines.open_sites import SEPARATOR, OpenSites
from wardround.federation.federation import Absence, Replies, Reply, SiteId, Traffic, code_of, those_asked
from wardround.federation.message import Message, encode
from wardround.federation.request_handler import heard
from wardround.federation.worker_process import BytesWorker, round_of, where

__all__ = ["InProcessFederation", "WorkerPoolFederation"]

_log = logging.getLogger(__name__)


class _Question(NamedTuple):
    step: str
    round: int
    data: bytes


class _OneMachine:
    """The sites of a study, and what is asked of them."""

    def __init__(self, sites: Sequence[SiteId]) -> None:
        self._sites = those_asked(None, sites)
        self.fault: WardroundError | None = None  # the first of a site in this process since it was last asked

    @property
    def sites(self) -> Sequence[SiteId]:
        """Everybody in the study."""
        return self._sites

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Ask sites in order; the question is encoded once, here."""
        asked = those_asked(to, self._sites)
        self.fault = None
        return self._exchanges(asked, _Question(step, round_of(message), encode(message)))

    def _exchanges(self, sites: Sequence[SiteId], question: _Question) -> Iterator[Reply]:
        raise NotImplementedError


class InProcessFederation(_OneMachine):
    """Sites one after the other, in the order they are asked; at most `open_at_once` of them exist at a time.

    Of a site's error a reply has its code alone, as everywhere. `fault` is for whoever runs all sites, and so may know.

    `ask` fixes the bytes of the question at once; a site works when its reply is consumed, and not before, so that
    one reply at a time is in memory. Replies that nobody consumes are work that nobody does.
    """

    def __init__(
        self, sites: Sequence[SiteId], open_site: Callable[[SiteId], BytesWorker], *, open_at_once: int = 16
    ) -> None:
        super().__init__(sites)
        self._open = OpenSites(open_site, open_at_once=open_at_once)

    def close(self) -> None:
        """Close every worker; a later `ask` opens them again."""
        self._open.close()

    def _exchanges(self, sites: Sequence[SiteId], question: _Question) -> Iterator[Reply]:
        for site in sites:
            # Outside the exchange: another site's state that cannot be laid aside is no absence of this one.
            self._open.make_room(site)
            yield _exchange(site, question, partial(self._open.worker, site), step=question.step, note=self._note)

    def _note(self, error: WardroundError) -> None:
        self.fault = self.fault or error.with_traceback(None)  # whose frames would keep the site in memory


class WorkerPoolFederation(_OneMachine):
    """Sites shared out among worker processes that work side by side; replies come in the order of asking.

    Each worker is one `BytesWorker` for several sites, asked for `site/step`. A worker is one reply ahead at most: of N
    workers, 2 N replies are in memory, however many sites there are.
    """

    def __init__(self, sites: Sequence[SiteId], workers: Sequence[BytesWorker]) -> None:
        super().__init__(sites)
        if not workers:
            raise FederationError("a pool needs at least one worker")
        self._workers = tuple(workers)
        self._place = {site: number % len(workers) for number, site in enumerate(self._sites)}

    def close(self) -> None:
        """Close every worker, also where closing one of them fails."""
        with ExitStack() as closing:
            for worker in self._workers:
                closing.callback(worker.close)

    def _exchanges(self, sites: Sequence[SiteId], question: _Question) -> Iterator[Reply]:
        queues: list[Queue[Reply]] = [Queue(maxsize=1) for _ in self._workers]
        for place, queue in enumerate(queues):
            mine = [site for site in sites if self._place[site] == place]
            threading.Thread(target=self._work, args=(place, mine, question, queue), daemon=True).start()
        for site in sites:
            yield queues[self._place[site]].get()

    def _work(self, place: int, sites: Sequence[SiteId], question: _Question, queue: Queue[Reply]) -> None:
        for site in sites:
            step = f"{site}{SEPARATOR}{question.step}"
            queue.put(_exchange(site, question, lambda: self._workers[place], step=step))


def _exchange(
    site: SiteId,
    question: _Question,
    worker: Callable[[], BytesWorker],
    *,
    step: str,
    note: Callable[[WardroundError], None] | None = None,
) -> Reply:
    started = perf_counter()
    try:
        opened = worker()
        opening = perf_counter() - started  # on one machine a site may have to be read from disk: its own work too
        answer = opened.answer_bytes(step, question.round, question.data)
        message, worked = heard(answer)
    except Exception as error:  # as at a site of its own, whatever goes wrong there is an absence here
        if isinstance(error, WardroundError) and note is not None:
            note(error)
        elif not isinstance(error, WardroundError):
            _log.warning("site=%s step=%s failed: %s", site, question.step, where(error))
        spent = Traffic(len(question.data), 0, perf_counter() - started)
        return Reply(site, None, spent, Absence.FAILED, code_of(error))
    seconds = perf_counter() - started
    return Reply(site, message, Traffic(len(question.data), len(answer), seconds, min(opening + worked, seconds)))
