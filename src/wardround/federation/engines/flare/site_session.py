"""A site's end of a networked study: what the coordinator signed goes to the worker, what the worker says goes back."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from wardround.errors import MessageError, WardroundError
from wardround.federation.engines.flare.cells import LARGEST_BODY, open_line
from wardround.federation.engines.flare.kits import Kit
from wardround.federation.engines.flare.quiet import REFUSED, Interruption, quiet
from wardround.federation.engines.flare.requests import Envelope, Reception, Request, Signatures, digest_of
from wardround.federation.federation import Absence, code_of, safe_code
from wardround.federation.worker_process import BytesWorker, WorkerProcess

__all__ = ["RequestDesk", "attend"]

_log = logging.getLogger(__name__)
_LAST_WORDS_SECONDS = 0.5  # for the answer to the last request to get out


def attend(
    kit: Kit,
    worker_command: Sequence[str],
    *,
    signatures: Signatures,
    accepted: Callable[[], bool],
    largest: int = LARGEST_BODY,
) -> int:
    """Run a site in this process until the coordinator says that the study is over; the exit code.

    `worker_command` runs a program that calls `serve_worker`; what it writes to its standard error, which may quote
    notes, is thrown away. Until `accepted()` every request is refused with `not-accepted`. A coordinator that is away
    is waited for. Must be called in the main thread; the process prints nothing afterwards.
    """
    terminal = quiet(kit.path)
    interruption = Interruption()
    worker = WorkerProcess(worker_command, errors=subprocess.DEVNULL)
    study, coordinator = digest_of(kit.study), kit.coordinator_certificate.read_bytes()
    reception = Reception(kit.name, study=study, signatures=signatures, coordinator=coordinator)
    desk = RequestDesk(reception, worker, accepted=accepted, largest=largest)
    try:
        line = open_line(kit, largest=largest)
        line.answer_with("request", desk.answer)
        line.answer_with("ping", desk.ping)
        _wait(desk.over, interruption)
        worker.close()
        line.close()
    except WardroundError as error:
        print(f"{type(error).__name__}: {error}", file=terminal, flush=True)
        return REFUSED
    return interruption.code


def _wait(over: threading.Event, interruption: Interruption) -> None:
    while not (interruption.code or over.wait(_LAST_WORDS_SECONDS)):
        pass
    if over.is_set():
        time.sleep(_LAST_WORDS_SECONDS)


class RequestDesk:
    """Where requests are looked at, one worker behind it. May be used by several threads."""

    def __init__(
        self, reception: Reception, worker: BytesWorker, *, accepted: Callable[[], bool], largest: int = LARGEST_BODY
    ) -> None:
        self._reception = reception
        self._worker = worker
        self._accepted = accepted
        self._largest = largest
        self._turn = threading.Condition()
        self._at_work = False
        self.over = threading.Event()

    def answer(self, envelope: Envelope) -> Envelope:
        """The signed answer to a request, or a signed absence with a code; nothing is raised."""
        if not self._accepted():
            return self._reception.absence(envelope.header, Absence.REFUSED, "not-accepted")
        try:
            request = self._reception.open(envelope)
        except MessageError as error:
            _log.warning("a request was refused: %s", error.code)
            return self._reception.absence(envelope.header, Absence.REFUSED, error.code)
        if request.kind == "hello":
            return self._reception.welcome(request)
        if request.kind == "over":
            self.over.set()
            return self._reception.answer(request, b"")
        return self._work(request)

    def ping(self, _: Envelope) -> Envelope:
        """Which start of the site this is; no secret, and not signed."""
        return Envelope(self._reception.nonce.encode(), b"")

    def _work(self, request: Request) -> Envelope:
        if not self._wait_for_turn(request):
            return self._reception.absence(request.header, Absence.FAILED, "superseded")
        try:
            body = self._worker.answer_bytes(request.step, request.round, request.body)
        except Exception as error:  # whatever goes wrong here is an absence there
            code = safe_code(code_of(error))
            _log.warning("step=%s round=%d failed: %s", request.step, request.round, code)
            return self._reception.absence(request.header, Absence.FAILED, code)
        finally:
            with self._turn:
                self._at_work = False
                self._turn.notify_all()
        if len(body) > self._largest:
            return self._reception.absence(request.header, Absence.FAILED, "oversized")
        return self._reception.answer(request, body)

    def _wait_for_turn(self, request: Request) -> bool:
        """Wait until the worker is free; False where a newer request came: the coordinator gave up on this one."""
        with self._turn:
            self._turn.notify_all()  # for one that was waiting, and now is not the newest
            while self._at_work and request.number == self._reception.last:
                self._turn.wait()
            if request.number < self._reception.last:
                return False
            self._at_work = True
            return True
