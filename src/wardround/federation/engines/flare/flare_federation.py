"""A `Federation` over a network: every site is asked at once, and replies are yielded as they arrive."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue

from wardround.errors import FederationError, MessageError
from wardround.federation.engines.flare.cells import Connection, Signal
from wardround.federation.engines.flare.requests import Answer, CoordinatorSession, Envelope, Signatures, digest_of
from wardround.federation.federation import Absence, Replies, Reply, SiteId, Traffic, recipients
from wardround.federation.message import Message, encode
from wardround.federation.worker_process import decode_answer, round_of

__all__ = ["FlareFederation"]

_log = logging.getLogger(__name__)
_PING_SECONDS = 2.0
_HELLO_SECONDS = 5.0
_PAUSE_SECONDS = 0.2  # between two checks of which sites are present


class FlareFederation:
    """The sites of a study, each with its own connection; a site that does not answer is absent and delays no other.

    An answer must arrive within `deadline` seconds of the question; the deadline may be changed before each question. A
    site that is not connected, or that restarted after it was asked, is absent at once. The bytes of the messages are
    counted as in the in-process engine.
    """

    def __init__(
        self, connection: Connection, sites: Sequence[SiteId], *, study: str, signatures: Signatures, deadline: float
    ) -> None:
        self._sites = tuple(sites)
        self.deadline = deadline
        self._peers = {
            site: _Peer(connection, CoordinatorSession(site, study=study, signatures=signatures))
            for site in self._sites
        }

    @property
    def sites(self) -> Sequence[SiteId]:
        """Return every site of the study."""
        return self._sites

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Ask all sites at once; an answer that arrived stays encoded until it is consumed."""
        asked = recipients(to, self._sites)
        question = _Question(step, message, self.deadline)
        return _Exchange([self._peers[site] for site in asked], question).replies()

    def wait_for(self, minimum: int, seconds: float) -> list[SiteId]:
        """Return the sites that are present once there are `minimum` of them; raise after `seconds`."""
        end = time.monotonic() + seconds
        while True:
            reasons = {site: peer.greet() for site, peer in self._peers.items()}
            present = [site for site, reason in reasons.items() if not reason]
            if len(present) >= minimum:
                return present
            if time.monotonic() >= end:
                absent = "; ".join(f"{site} {reason}" for site, reason in reasons.items() if reason)
                raise FederationError(f"{len(present)} sites are present; the study needs {minimum} ({absent})")
            time.sleep(_PAUSE_SECONDS)

    def announce_end(self) -> None:
        """Tell every site that can be reached that the study is over."""
        threads = [threading.Thread(target=peer.announce_end, daemon=True) for peer in self._peers.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class _Question:
    """A question, encoded once, and its deadline."""

    def __init__(self, step: str, message: Message, seconds: float) -> None:
        self.step = step
        self.round = round_of(message)
        self.body = encode(message)
        self.digest = digest_of(self.body)
        self.started = time.monotonic()
        self.seconds = seconds

    def seconds_left(self) -> float:
        return self.started + self.seconds - time.monotonic()


class _Peer:
    """One site: greet it if necessary, ask it, ping it."""

    def __init__(self, connection: Connection, session: CoordinatorSession) -> None:
        self.site = session.site
        self._connection = connection
        self._session = session
        self._lock = threading.Lock()  # an exchange that timed out may still be running

    @property
    def is_connected(self) -> bool:
        return self._connection.is_connected(self.site)

    @property
    def nonce(self) -> str:
        return self._session.nonce

    def exchange(self, question: _Question, stop: Signal) -> Answer:
        """Return the site's answer; a site that restarted is greeted and asked again."""
        answer = self._exchange_once(question, stop)
        if answer.code != "session":
            return answer
        with self._lock:
            self._session.forget()
        return self._exchange_once(question, stop)

    def greet(self) -> str:
        """Greet the site unless its current session is known; return the error code, or an empty string."""
        if not self.is_connected:
            return "unreachable"
        try:
            with self._lock:
                if self.nonce and self.ping() != self.nonce:
                    self._session.forget()
                return self._ensure_session().code
        except MessageError as error:
            return error.code

    def ping(self) -> str:
        """Return the nonce that the site drew when it last started."""
        reply = self._connection.send(self.site, "ping", Envelope(b"", b""), seconds=_PING_SECONDS)
        return reply.header.decode("ascii", "replace")

    def announce_end(self) -> None:
        if self.greet():
            return
        try:
            with self._lock:
                request = self._session.over()
            self._connection.send(self.site, "request", request, seconds=_PING_SECONDS)
        except MessageError as error:
            _log.info("site=%s was not informed that the study is over: %s", self.site, error.code)

    def _exchange_once(self, question: _Question, stop: Signal) -> Answer:
        with self._lock:
            answer = self._ensure_session()
            if answer.absence is not None:
                return answer
            request = self._session.ask(question.step, question.round, question.body, question.digest)
        # The exchange enforces the deadline and stops this call; a little longer, so that the exchange acts first.
        seconds = max(question.seconds_left(), 0) + _PING_SECONDS
        reply = self._connection.send(self.site, "request", request, seconds=seconds, stop=stop)
        return self._session.answer(request, reply)

    def _ensure_session(self) -> Answer:
        if self._session.nonce:
            return Answer()
        hello = self._session.hello()
        welcome = self._connection.send(self.site, "request", hello, seconds=_HELLO_SECONDS)
        return self._session.accept_welcome(hello, welcome)


class _Pending:
    """A site that was asked and has not answered yet."""

    def __init__(self, peer: _Peer) -> None:
        self.peer = peer
        self.stop = Signal()
        self.pinging = False


class _Exchange:
    """One question to several sites: one thread per site; the caller's thread gives up on sites that are gone."""

    def __init__(self, peers: Sequence[_Peer], question: _Question) -> None:
        self._question = question
        self._arrived: SimpleQueue[tuple[SiteId, Answer]] = SimpleQueue()
        self._pending = {peer.site: _Pending(peer) for peer in peers}
        self._next_check = question.started + _PING_SECONDS
        for pending in self._pending.values():
            threading.Thread(target=self._run, args=(pending,), daemon=True).start()

    def replies(self) -> Iterator[Reply]:
        try:
            while self._pending:
                seconds = min(self._question.seconds_left(), self._next_check - time.monotonic())
                try:
                    site, answer = self._arrived.get(timeout=max(seconds, 0))
                except Empty:
                    self._check_silent_sites()
                    continue
                if self._pending.pop(site, None) is not None:
                    yield self._reply(site, answer)
        finally:
            for pending in self._pending.values():
                pending.stop.trigger(True)

    def _run(self, pending: _Pending) -> None:
        peer = pending.peer
        try:
            if not peer.is_connected:
                raise MessageError("unreachable", "there is no connection")
            answer = peer.exchange(self._question, pending.stop)
        except MessageError as error:
            answer = _absence(error.code)
        except Exception as error:  # the round continues without this site
            _log.error("site=%s cannot be asked: %s", peer.site, type(error).__name__)
            answer = _absence("transport")
        self._arrived.put((peer.site, answer))

    def _check_silent_sites(self) -> None:
        late = self._question.seconds_left() <= 0
        for site, pending in self._pending.items():
            if late:
                self._give_up(site, pending, "deadline")
            elif not pending.peer.is_connected:
                self._give_up(site, pending, "unreachable")
            elif not pending.pinging:
                pending.pinging = True
                threading.Thread(target=self._ping, args=(site, pending), daemon=True).start()
        self._next_check = time.monotonic() + _PING_SECONDS

    def _ping(self, site: SiteId, pending: _Pending) -> None:
        try:
            known, present = pending.peer.nonce, pending.peer.ping()
            if known not in ("", present):
                self._give_up(site, pending, "restarted")
        except MessageError:
            pass  # it may wait behind a large message on a slow link; FLARE closes a dead connection itself
        pending.pinging = False

    def _give_up(self, site: SiteId, pending: _Pending, code: str) -> None:
        pending.stop.trigger(True)
        self._arrived.put((site, _absence(code)))

    def _reply(self, site: SiteId, answer: Answer) -> Reply:
        seconds = time.monotonic() - self._question.started
        spent = Traffic(len(self._question.body), len(answer.body), seconds)
        if answer.absence is None:
            try:
                message, worked = decode_answer(answer.body)
                return Reply(site, message, replace(spent, worked=min(worked, seconds)))
            except MessageError as error:
                answer = Answer(absence=Absence.FAILED, code=error.code)
        _log.warning("site=%s step=%s absent: %s", site, self._question.step, answer.code)
        return Reply(site, None, spent, answer.absence, answer.code)


def _absence(code: str) -> Answer:
    return Answer(absence=Absence.LATE if code == "deadline" else Absence.FAILED, code=code)
