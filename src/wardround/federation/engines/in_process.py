"""Engines that run every site on one machine: deterministic, in bounded memory, with the codec of the network."""

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
from wardround.federation.federation import Absence, Replies, Reply, SiteId, Traffic, code_of, recipients
from wardround.federation.message import Data, Message, MessageBuffer
from wardround.federation.worker_process import BytesWorker, decode_answer, error_location, round_of

__all__ = ["InProcessFederation", "WorkerPoolFederation"]

_log = logging.getLogger(__name__)


class _Question(NamedTuple):
    step: str
    round: int
    data: Data


class _OneMachine:
    """The sites of a study on one machine."""

    def __init__(self, sites: Sequence[SiteId]) -> None:
        self._sites = recipients(None, sites)
        self._question = MessageBuffer()
        self.fault: WardroundError | None = None  # the first error of a site in this process since the last question

    @property
    def sites(self) -> Sequence[SiteId]:
        """Return every site of the study."""
        return self._sites

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Ask sites in order; the question is encoded once."""
        asked = recipients(to, self._sites)
        self.fault = None
        return self._exchanges(asked, _Question(step, round_of(message), self._question.encode(message)))

    def _exchanges(self, sites: Sequence[SiteId], question: _Question) -> Iterator[Reply]:
        raise NotImplementedError


class InProcessFederation(_OneMachine):
    """Runs sites one after another, in the order they are asked; at most `open_at_once` of them exist at a time.

    A reply has only the code of a site's error, as in every engine. `fault` is the error itself, for the person who
    runs all sites. `ask` encodes the question at once. A site works only when its reply is consumed, so only one reply
    at a time is in memory.
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
        def note(error: WardroundError) -> None:
            self.fault = self.fault or error.with_traceback(None)  # its frames would keep the site in memory

        for site in sites:
            # Outside the exchange: if the state of another site cannot be saved, this site is not absent.
            self._open.make_room(site)
            yield _exchange(site, question, partial(self._open.worker, site), step=question.step, note=note)


class WorkerPoolFederation(_OneMachine):
    """Divides sites among worker processes that run in parallel; replies arrive in the order of asking.

    Each worker is a `BytesWorker` for several sites and is asked for `site/step`. A worker is at most one reply ahead:
    with N workers, 2 N replies are in memory, however many sites there are.
    """

    def __init__(self, sites: Sequence[SiteId], workers: Sequence[BytesWorker]) -> None:
        super().__init__(sites)
        if not workers:
            raise FederationError("a pool needs at least one worker")
        self._workers = tuple(workers)
        self._place = {site: number % len(workers) for number, site in enumerate(self._sites)}

    def close(self) -> None:
        """Close every worker, even if closing one of them fails."""
        with ExitStack() as closing:
            for worker in self._workers:
                closing.callback(worker.close)

    def _exchanges(self, sites: Sequence[SiteId], question: _Question) -> Iterator[Reply]:
        def work(place: int, queue: Queue[Reply]) -> None:
            for site in sites:
                if self._place[site] == place:
                    step = f"{site}{SEPARATOR}{question.step}"
                    queue.put(_exchange(site, question, lambda: self._workers[place], step=step))

        queues: list[Queue[Reply]] = [Queue(maxsize=1) for _ in self._workers]
        for place, queue in enumerate(queues):
            threading.Thread(target=work, args=(place, queue), daemon=True).start()
        for site in sites:
            yield queues[self._place[site]].get()


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
        opening = perf_counter() - started  # reading a site from disk counts as its own work
        answer = opened.answer_bytes(step, question.round, question.data)
        message, worked = decode_answer(answer)
    except Exception as error:  # any error of a site is an absence
        if isinstance(error, WardroundError) and note is not None:
            note(error)
        elif not isinstance(error, WardroundError):
            _log.warning("site=%s step=%s failed: %s", site, question.step, error_location(error))
        spent = Traffic(len(question.data), 0, perf_counter() - started)
        return Reply(site, None, spent, Absence.FAILED, code_of(error))
    seconds = perf_counter() - started
    return Reply(site, message, Traffic(len(question.data), len(answer), seconds, min(opening + worked, seconds)))
