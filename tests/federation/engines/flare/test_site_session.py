"""The request handler of a site, without a network: refusals, answers and log lines."""

from __future__ import annotations

import io
import logging
import socket
import threading
from collections.abc import Callable

import pytest

pytest.importorskip("nvflare", reason="install wardround[flare]")

from tests.federation.engines.flare.initials import Initials

from wardround.errors import MessageError, TrainingError
from wardround.federation.engines.flare.requests import Answer, CoordinatorSession, Envelope, SiteSession, digest_of
from wardround.federation.engines.flare.site_session import Announcements, SignedRequestHandler
from wardround.federation.federation import Absence


class Worker:
    """A worker that calls a given function."""

    def __init__(self, work: Callable[[bytes], bytes]) -> None:
        self.work = work
        self.asked: list[tuple[str, int]] = []

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        self.asked.append((step, round_number))
        return self.work(data)

    def close(self) -> None:
        pass


class Office:
    """A site's request handler and the coordinator that sends requests to it."""

    def __init__(self, work: Callable[[bytes], bytes] = bytes.upper, *, largest: int = 100) -> None:
        self.accepted = True
        self.worker = Worker(work)
        self.reception = SiteSession("h1", study="s", signatures=Initials("h1"), coordinator=b"coordinator")
        self.desk = SignedRequestHandler(self.reception, self.worker, accepted=lambda: self.accepted, largest=largest)
        self.coordinator = CoordinatorSession("h1", study="s", signatures=Initials("coordinator"))

    def greet(self) -> Answer:
        hello = self.coordinator.hello()
        return self.coordinator.accept_welcome(hello, self.desk.answer(hello))

    def write(self, body: bytes = b"note", *, step: str = "train", number: int = 2) -> Envelope:
        return self.coordinator.ask(step, number, body, digest_of(body))

    def ask(self, body: bytes = b"note") -> Answer:
        envelope = self.write(body)
        return self.coordinator.answer(envelope, self.desk.answer(envelope))


def test_a_signed_request_is_executed_once() -> None:
    office = Office()
    assert office.greet().absence is None
    envelope = office.write()
    assert office.coordinator.answer(envelope, office.desk.answer(envelope)).body == b"NOTE"
    again = office.coordinator.answer(envelope, office.desk.answer(envelope))
    assert (again.absence, again.code) == (Absence.REFUSED, "replay")
    assert office.worker.asked == [("train", 2)]


def test_nothing_is_answered_before_the_study_is_accepted() -> None:
    office = Office()
    office.accepted = False
    answer = office.greet()
    assert (answer.absence, answer.code) == (Absence.REFUSED, "not-accepted")
    office.accepted = True
    office.greet()
    office.accepted = False
    assert office.ask().code == "not-accepted"
    office.desk.answer(office.coordinator.over())
    assert not office.desk.over.is_set()
    assert office.worker.asked == []


def test_a_forged_request_is_refused_and_its_content_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    office.greet()
    envelope = office.write(b"Mrs Marker")
    with caplog.at_level(logging.DEBUG):
        reply = office.desk.answer(Envelope(envelope.header, b"forged", envelope.body))
        office.desk.answer(Envelope(b"Mrs Marker", b"", b"Mrs Marker"))
    answer = office.coordinator.answer(envelope, reply)
    assert (answer.absence, answer.code) == (Absence.REFUSED, "signature")
    assert office.worker.asked == []
    assert "signature" in caplog.text and "Marker" not in caplog.text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TrainingError("Mrs Marker"), "TrainingError"),
        (ValueError("Mrs Marker"), "ValueError"),
        (MessageError("worker-died", "Mrs Marker"), "worker-died"),
        (MessageError("Mrs Marker"), "unknown"),
    ],
)
def test_only_the_code_of_an_error_is_sent(error: Exception, code: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: bytes) -> bytes:
        raise error

    office = Office(fail)
    office.greet()
    with caplog.at_level(logging.DEBUG):
        answer = office.ask()
    assert (answer.absence, answer.code) == (Absence.FAILED, code)
    assert code in caplog.text and "Marker" not in caplog.text
    office.worker.work = bytes.upper
    assert office.ask().body == b"NOTE"


def test_an_oversized_answer_is_not_sent() -> None:
    office = Office(lambda data: data * 26)
    office.greet()
    answer = office.ask()  # 104 bytes
    assert (answer.absence, answer.code) == (Absence.FAILED, "oversized")
    office.worker.work = lambda data: data * 25
    assert len(office.ask().body) == 100


def test_of_several_waiting_requests_the_newest_is_executed() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(data: bytes) -> bytes:
        begun.set()
        assert go_on.wait(60)
        return data

    office = Office(slowly)
    office.greet()
    envelopes = [office.write(body, number=number) for number, body in enumerate([b"a", b"b", b"c"])]
    answers: dict[int, Answer] = {}

    def answer(index: int) -> None:
        answers[index] = office.coordinator.answer(envelopes[index], office.desk.answer(envelopes[index]))

    threads = [threading.Thread(target=answer, args=(index,)) for index in range(3)]
    for index, thread in enumerate(threads):
        thread.start()
        assert begun.wait(60)
        while office.reception.last < index + 1:
            pass
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert (answers[0].body, answers[1].code, answers[2].body) == (b"a", "superseded", b"c")
    assert office.worker.asked == [("train", 0), ("train", 2)]


def test_the_end_of_a_study_must_be_signed_too() -> None:
    office = Office()
    office.greet()
    over = office.coordinator.over()
    office.desk.answer(Envelope(over.header, b"forged"))
    assert not office.desk.over.is_set()
    assert office.coordinator.answer(over, office.desk.answer(over)).absence is None
    assert office.desk.over.is_set()


def test_a_ping_returns_only_the_nonce_of_the_start() -> None:
    office = Office()
    assert office.desk.ping(Envelope(b"", b"")) == Envelope(office.reception.nonce.encode(), b"")


def test_the_terminal_shows_a_coordinator_that_cannot_be_reached_and_then_each_round() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        terminal = io.StringIO()
        said = Announcements(terminal, "127.0.0.1", port)
        said.look()  # nothing listens
        said.look()  # it does not look again at once
        refused = f"the coordinator 127.0.0.1:{port} cannot be reached (Connection refused); still trying"
        assert terminal.getvalue().splitlines() == [refused]
        listener.listen()
        later = Announcements(terminal, "127.0.0.1", port)
        later.look()
    for step, number in (("describe", 0), ("train", 1), ("open_sum", 1), ("score", 1), ("train", 2), ("finish", 2)):
        later.on_request(step, number)
    later.look()
    assert terminal.getvalue().splitlines()[1:] == [
        "the coordinator can be reached; waiting for its first request",
        "the coordinator has sent its first request",
        "round 1",
        "round 2",
        "the finished model is scored on the notes of this site",
    ]
