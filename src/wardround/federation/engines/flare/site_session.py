"""A site's process in a networked study: pass signed requests to the worker, and its answers back."""

from __future__ import annotations

import logging
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from wardround.errors import MessageError, WardroundError
from wardround.federation.engines.flare.cells import LARGEST_BODY, open_connection
from wardround.federation.engines.flare.quiet import REFUSED, Interruption, redirect_output
from wardround.federation.engines.flare.requests import Envelope, FlareParty, Request, Signatures, SiteSession
from wardround.federation.federation import Absence, code_of, safe_code
from wardround.federation.worker_process import BytesWorker, WorkerProcess

__all__ = ["Announcements", "SignedRequestHandler", "run_site_session"]

_log = logging.getLogger(__name__)
_SECONDS_TO_SEND = 0.5  # to send the answer to the last request
_SECONDS_BETWEEN_LOOKS = 10.0  # at a coordinator that has not sent anything yet
_SECONDS_TO_CONNECT = 3.0


def run_site_session(
    party: FlareParty,
    worker_command: Sequence[str],
    *,
    signatures: Signatures,
    accepted: Callable[[], bool],
    largest: int = LARGEST_BODY,
    last_line: Callable[[], str] | None = None,
) -> int:
    """Run a site in this process until the coordinator says that the study is over; return the exit code.

    `worker_command` runs a program that calls `serve_worker`; its standard error, which may quote notes, is discarded.
    Until `accepted()` every request is refused with `not-accepted`. The site waits while the coordinator is away. Must
    be called in the main thread. On the terminal it says when the coordinator cannot be reached, each round, the end,
    and then `last_line()`.
    """
    terminal = redirect_output(party.folder)
    interruption = Interruption()
    worker = WorkerProcess(worker_command, errors=subprocess.DEVNULL)
    coordinator = party.coordinator_certificate.read_bytes()
    session = SiteSession(party.name, study=party.study, signatures=signatures, coordinator=coordinator)
    said = Announcements(terminal, party.host, party.port)
    handler = SignedRequestHandler(session, worker, accepted=accepted, largest=largest, on_request=said.on_request)
    try:
        connection = open_connection(party, largest=largest)
        connection.answer_with("request", handler.answer)
        connection.answer_with("ping", handler.ping)
        while not (interruption.code or handler.over.wait(_SECONDS_TO_SEND)):
            said.look()
        if handler.over.is_set():
            time.sleep(_SECONDS_TO_SEND)
            said.say("the study is over")
            if last_line is not None:
                said.say(last_line())
        worker.close()
        connection.close()
    except WardroundError as error:
        print(f"{type(error).__name__}: {error}", file=terminal, flush=True)
        return REFUSED
    return interruption.code


class Announcements:
    """Says on the terminal what happens, in one line each, and never the same twice in a row."""

    def __init__(self, terminal: TextIO, host: str, port: int) -> None:
        self._terminal, self._host, self._port = terminal, host, port
        self._last, self._round, self._next_look = "", -1, 0.0
        self._asked = False  # whether the coordinator has sent a request

    def say(self, text: str) -> None:
        """Print a line, unless it is the same as the last one."""
        if text != self._last:
            self._last = text
            print(text, file=self._terminal, flush=True)

    def look(self) -> None:
        """Say whether the coordinator can be reached, until it sends its first request."""
        if self._asked or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        try:
            socket.create_connection((self._host, self._port), timeout=_SECONDS_TO_CONNECT).close()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self.say(f"the coordinator {self._host}:{self._port} cannot be reached ({reason}); still trying")
        else:
            self.say("the coordinator can be reached; waiting for its first request")

    def on_request(self, step: str, round_number: int) -> None:
        """Say which round begins; several steps belong to one."""
        if not self._asked:
            self._asked = True
            self.say("the coordinator has sent its first request")
        if step == "finish":
            self.say("the finished model is scored on the notes of this site")
        elif round_number > max(self._round, 0):
            self.say(f"round {round_number}")
        self._round = max(self._round, round_number)


class SignedRequestHandler:
    """Check signed requests and pass them to one worker. May be used by several threads."""

    def __init__(
        self,
        session: SiteSession,
        worker: BytesWorker,
        *,
        accepted: Callable[[], bool],
        largest: int = LARGEST_BODY,
        on_request: Callable[[str, int], None] | None = None,
    ) -> None:
        self._on_request = on_request
        self._session = session
        self._worker = worker
        self._accepted = accepted
        self._largest = largest
        self._worker_free = threading.Condition()
        self._busy = False
        self.over = threading.Event()

    def answer(self, envelope: Envelope) -> Envelope:
        """Return the signed answer to a request, or a signed absence with a code; never raise."""
        if not self._accepted():
            return self._session.absence(envelope.header, Absence.REFUSED, "not-accepted")
        try:
            request = self._session.open(envelope)
        except MessageError as error:
            _log.warning("a request was refused: %s", error.code)
            return self._session.absence(envelope.header, Absence.REFUSED, error.code)
        if request.kind == "hello":
            return self._session.welcome(request)
        if request.kind == "over":
            self.over.set()
            return self._session.answer(request, b"")
        return self._work(request)

    def ping(self, _: Envelope) -> Envelope:
        """Return the nonce that this site drew when it started; it is neither secret nor signed."""
        return Envelope(self._session.nonce.encode(), b"")

    def _work(self, request: Request) -> Envelope:
        if self._on_request is not None:
            self._on_request(request.step, request.round)
        if not self._wait_for_worker(request):
            return self._session.absence(request.header, Absence.FAILED, "superseded")
        try:
            body = self._worker.answer_bytes(request.step, request.round, request.body)
        except Exception as error:  # any error at the site is an absence at the coordinator
            code = safe_code(code_of(error))
            _log.warning("step=%s round=%d failed: %s", request.step, request.round, code)
            return self._session.absence(request.header, Absence.FAILED, code)
        finally:
            with self._worker_free:
                self._busy = False
                self._worker_free.notify_all()
        if len(body) > self._largest:
            return self._session.absence(request.header, Absence.FAILED, "oversized")
        return self._session.answer(request, body)

    def _wait_for_worker(self, request: Request) -> bool:
        """Wait until the worker is free; return False if a newer request arrived, which replaces this one."""
        with self._worker_free:
            self._worker_free.notify_all()  # a waiting request is no longer the newest
            while self._busy and request.number == self._session.last:
                self._worker_free.wait()
            if request.number < self._session.last:
                return False
            self._busy = True
            return True
