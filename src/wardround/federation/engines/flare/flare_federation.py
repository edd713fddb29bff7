"""The first door over a network: every site is asked at once, and answers are taken as they come."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue

from wardround.errors import FederationError, MessageError
from wardround.federation.engines.flare.cells import Line, Signal
from wardround.federation.engines.flare.requests import Answer, Correspondence, Envelope, Signatures, digest_of
from wardround.federation.federation import Absence, Replies, Reply, SiteId, Traffic, those_asked
from wardround.federation.message import Message, encode
from wardround.federation.request_handler import heard
from wardround.federation.worker_process import round_of

__all__ = ["FlareFederation"]

_log = logging.getLogger(__name__)
_PING_SECONDS = 2.0
_HELLO_SECONDS = 5.0
_PAUSE_SECONDS = 0.2  # between two looks at who is there


class FlareFederation:
    """The sites of a study, each behind its own connection; a site that does not answer costs its own absence only.

    An answer must come within `deadline` seconds of the question; it may be set anew before each. A site that is not
    connected, or that was started again since it was asked, is absent at once. Bytes are counted as in one process:
    those of the messages.
    """

    def __init__(
        self, line: Line, sites: Sequence[SiteId], *, study: str, signatures: Signatures, deadline: float
    ) -> None:
        self._sites = tuple(sites)
        self.deadline = deadline
        self._peers = {
            site: _Peer(line, Correspondence(site, study=study, signatures=signatures)) for site in self._sites
        }

    @property
    def sites(self) -> Sequence[SiteId]:
        """Everybody in the study."""
        return self._sites

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Ask all at once; an answer that came waits, encoded, until it is taken."""
        asked = those_asked(to, self._sites)
        question = _Question(step, message, self.deadline)
        return _Exchange([self._peers[site] for site in asked], question).replies()

    def wait_for(self, least: int, seconds: float) -> list[SiteId]:
        """Who is there, as soon as it is at least so many; an error where it takes longer than so many seconds."""
        end = time.monotonic() + seconds
        while True:
            reasons = {site: peer.greeting() for site, peer in self._peers.items()}
            present = [site for site, reason in reasons.items() if not reason]
            if len(present) >= least:
                return present
            if time.monotonic() >= end:
                absent = "; ".join(f"{site} {reason}" for site, reason in reasons.items() if reason)
                raise FederationError(f"{len(present)} sites are here where the study wants {least} ({absent})")
            time.sleep(_PAUSE_SECONDS)

    def say_over(self) -> None:
        """Tell every site that can be reached that the study is over."""
        threads = [threading.Thread(target=peer.say_over, daemon=True) for peer in self._peers.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class _Question:
    """What is asked, encoded once, and until when."""

    def __init__(self, step: str, message: Message, seconds: float) -> None:
        self.step = step
        self.round = round_of(message)
        self.body = encode(message)
        self.digest = digest_of(self.body)
        self.started = time.monotonic()
        self.seconds = seconds

    def left(self) -> float:
        return self.started + self.seconds - time.monotonic()


class _Peer:
    """One site: greeted when it must be, asked, pinged."""

    def __init__(self, line: Line, correspondence: Correspondence) -> None:
        self.site = correspondence.site
        self._line = line
        self._correspondence = correspondence
        self._lock = threading.Lock()  # an exchange that was given up may still be running

    @property
    def is_connected(self) -> bool:
        return self._line.is_connected(self.site)

    @property
    def nonce(self) -> str:
        return self._correspondence.nonce

    def exchange(self, question: _Question, stop: Signal) -> Answer:
        """The site's answer; one that was started again is greeted and asked again."""
        answer = self._exchange_once(question, stop)
        if answer.code != "session":
            return answer
        with self._lock:
            self._correspondence.forget()
        return self._exchange_once(question, stop)

    def greeting(self) -> str:
        """Greet the site where its present start is not known; the code with which it cannot be, or nothing."""
        if not self.is_connected:
            return "unreachable"
        try:
            with self._lock:
                if self.nonce and self.ping() != self.nonce:
                    self._correspondence.forget()
                return self._greeted().code
        except MessageError as error:
            return error.code

    def ping(self) -> str:
        """The nonce of the site's present start."""
        reply = self._line.send(self.site, "ping", Envelope(b"", b""), seconds=_PING_SECONDS)
        return reply.header.decode("ascii", "replace")

    def say_over(self) -> None:
        if self.greeting():
            return
        try:
            with self._lock:
                request = self._correspondence.over()
            self._line.send(self.site, "request", request, seconds=_PING_SECONDS)
        except MessageError as error:
            _log.info("site=%s was not told that the study is over: %s", self.site, error.code)

    def _exchange_once(self, question: _Question, stop: Signal) -> Answer:
        with self._lock:
            greeting = self._greeted()
            if greeting.absence is not None:
                return greeting
            request = self._correspondence.ask(question.step, question.round, question.body, question.digest)
        # The exchange says when it is too late, and stops this; a little longer, so that it is the first to say so.
        seconds = max(question.left(), 0) + _PING_SECONDS
        reply = self._line.send(self.site, "request", request, seconds=seconds, stop=stop)
        return self._correspondence.answer(request, reply)

    def _greeted(self) -> Answer:
        if self._correspondence.nonce:
            return Answer()
        hello = self._correspondence.hello()
        welcome = self._line.send(self.site, "request", hello, seconds=_HELLO_SECONDS)
        return self._correspondence.greeted(hello, welcome)


class _Pending:
    """A site that was asked and has not answered."""

    def __init__(self, peer: _Peer) -> None:
        self.peer = peer
        self.stop = Signal()
        self.pinging = False


class _Exchange:
    """One question to several sites: a thread a site, and the caller's own, which gives up on those that are gone."""

    def __init__(self, peers: Sequence[_Peer], question: _Question) -> None:
        self._question = question
        self._arrived: SimpleQueue[tuple[SiteId, Answer]] = SimpleQueue()
        self._pending = {peer.site: _Pending(peer) for peer in peers}
        self._next_look = question.started + _PING_SECONDS
        for pending in self._pending.values():
            threading.Thread(target=self._run, args=(pending,), daemon=True).start()

    def replies(self) -> Iterator[Reply]:
        try:
            while self._pending:
                try:
                    site, answer = self._arrived.get(timeout=max(self._seconds_to_wait(), 0))
                except Empty:
                    self._look_after_the_silent()
                    continue
                if self._pending.pop(site, None) is not None:
                    yield self._reply(site, answer)
        finally:
            for pending in self._pending.values():
                pending.stop.trigger(True)

    def _seconds_to_wait(self) -> float:
        return min(self._question.left(), self._next_look - time.monotonic())

    def _run(self, pending: _Pending) -> None:
        peer = pending.peer
        try:
            if not peer.is_connected:
                raise MessageError("unreachable", "no connection stands")
            answer = peer.exchange(self._question, pending.stop)
        except MessageError as error:
            answer = _absence(error.code)
        except Exception as error:  # the round goes on without this site
            _log.error("site=%s cannot be asked: %s", peer.site, type(error).__name__)
            answer = _absence("transport")
        self._arrived.put((peer.site, answer))

    def _look_after_the_silent(self) -> None:
        late = self._question.left() <= 0
        for site, pending in self._pending.items():
            if late:
                self._give_up(site, pending, "deadline")
            elif not pending.peer.is_connected:
                self._give_up(site, pending, "unreachable")
            elif not pending.pinging:
                pending.pinging = True
                threading.Thread(target=self._ping, args=(site, pending), daemon=True).start()
        self._next_look = time.monotonic() + _PING_SECONDS

    def _ping(self, site: SiteId, pending: _Pending) -> None:
        try:
            known, present = pending.peer.nonce, pending.peer.ping()
            if known not in ("", present):
                self._give_up(site, pending, "restarted")
        except MessageError:
            pass  # it waits behind a large message on a slow link; a dead connection is closed without our help
        pending.pinging = False

    def _give_up(self, site: SiteId, pending: _Pending, code: str) -> None:
        pending.stop.trigger(True)
        self._arrived.put((site, _absence(code)))

    def _reply(self, site: SiteId, answer: Answer) -> Reply:
        seconds = time.monotonic() - self._question.started
        spent = Traffic(len(self._question.body), len(answer.body), seconds)
        if answer.absence is None:
            try:
                message, worked = heard(answer.body)
                return Reply(site, message, replace(spent, worked=min(worked, seconds)))
            except MessageError as error:
                answer = Answer(absence=Absence.FAILED, code=error.code)
        _log.warning("site=%s step=%s absent: %s", site, self._question.step, answer.code)
        return Reply(site, None, spent, answer.absence, answer.code)


def _absence(code: str) -> Answer:
    return Answer(absence=Absence.LATE if code == "deadline" else Absence.FAILED, code=code)
