"""The networked federation at the coordinator, with sites in this process instead of a network."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="install wardround[flare]")

from tests.federation.engines.flare.initials import Initials
from tests.processes import eventually

from wardround.errors import FederationError, MessageError
from wardround.federation.engines.flare import flare_federation
from wardround.federation.engines.flare.flare_federation import FlareFederation
from wardround.federation.engines.flare.requests import Envelope, SiteSession
from wardround.federation.engines.flare.site_session import SignedRequestHandler
from wardround.federation.federation import Absence, Reply
from wardround.federation.message import Message, decode, encode


class Worker:
    """Adds one to every array."""

    def __init__(self, asleep: threading.Event) -> None:
        self._asleep = asleep

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        if step == "sleep":
            self._asleep.set()
            time.sleep(120)
        if step == "garble":
            return b"Mrs Marker"
        message = decode(data)
        return encode(Message({"round": round_number}, {name: array + 1 for name, array in message.arrays.items()}))

    def close(self) -> None:
        pass


class String:
    """A connection to sites in this process; each can be disconnected, restarted, silenced or altered."""

    def __init__(self, *sites: str) -> None:
        self.accepted = dict.fromkeys(sites, True)
        self.asleep = threading.Event()  # somebody is
        self.desks = {site: self.new_desk(site) for site in sites}
        self.cut: set[str] = set()
        self.silent: set[str] = set()
        self.alter: dict[str, Callable[[Envelope], Envelope]] = {}
        self.over: list[str] = []

    def new_desk(self, site: str) -> SignedRequestHandler:
        reception = SiteSession(site, study="s", signatures=Initials(site), coordinator=b"coordinator")
        return SignedRequestHandler(reception, Worker(self.asleep), accepted=lambda: self.accepted[site])

    def restart(self, site: str) -> None:
        self.desks[site] = self.new_desk(site)

    def is_connected(self, site: str) -> bool:
        return site not in self.cut

    def send(self, site: str, topic: str, envelope: Envelope, *, seconds: float, stop: Any = None) -> Envelope:
        if site in self.cut:
            raise MessageError("unreachable")
        if site in self.silent:
            for _ in range(int(seconds / 0.01)):
                time.sleep(0.01)
                if stop is not None and stop.triggered:
                    break
            raise MessageError("deadline")
        desk = self.desks[site]
        reply = desk.ping(envelope) if topic == "ping" else desk.answer(envelope)
        return self.alter[site](reply) if site in self.alter and topic != "ping" else reply


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> String:
    monkeypatch.setattr(flare_federation, "_PING_SECONDS", 0.1)
    monkeypatch.setattr(flare_federation, "_PAUSE_SECONDS", 0.01)
    return String("h1", "h2", "h3")


@pytest.fixture
def federation(line: Any) -> FlareFederation:
    return FlareFederation(line, ["h1", "h2", "h3"], study="s", signatures=Initials("coordinator"), deadline=60.0)


QUESTION = Message({"round": 4}, {"w": np.array([1.0, 2.0], np.float32)})


def asked(federation: FlareFederation, step: str = "train", **options: Any) -> dict[str, Reply]:
    return {reply.site: reply for reply in federation.ask(step, QUESTION, **options)}


def codes(replies: dict[str, Reply]) -> dict[str, tuple[Absence | None, str]]:
    return {site: (reply.absence, reply.code) for site, reply in replies.items() if reply.absence}


def test_all_sites_answer(federation: FlareFederation) -> None:
    replies = asked(federation)
    assert sorted(replies) == list(federation.sites) == ["h1", "h2", "h3"]
    for reply in replies.values():
        assert reply.message == Message({"round": 4}, {"w": np.array([2.0, 3.0], np.float32)})
        assert reply.traffic.down == len(encode(QUESTION)) and reply.traffic.up == len(encode(reply.message))
        assert 0 < reply.traffic.seconds < 30
    assert asked(federation, to=["h3", "h1"]).keys() == {"h1", "h3"}
    assert asked(federation, to=[]) == {}


def test_only_sites_of_the_study_can_be_asked(federation: FlareFederation) -> None:
    for to in (["h1", "h9"], ["h1", "h1"]):
        with pytest.raises(FederationError):
            federation.ask("train", QUESTION, to=to)


def test_the_question_is_sent_when_it_is_asked(federation: FlareFederation, line: String) -> None:
    array = np.zeros(1, np.float32)
    replies = federation.ask("train", Message({}, {"w": array}))
    array += 7
    while not all(desk._session.last for desk in line.desks.values()):
        time.sleep(0.01)
    assert [float(reply.message.arrays["w"][0]) for reply in replies if reply.message] == [1.0, 1.0, 1.0]


def test_a_site_without_connection_is_absent_at_once(federation: FlareFederation, line: String) -> None:
    line.cut.add("h2")
    replies = asked(federation)
    assert codes(replies) == {"h2": (Absence.FAILED, "unreachable")}
    assert replies["h2"].traffic.seconds < 30
    line.cut.clear()
    assert codes(asked(federation)) == {}


def test_a_broken_connection_does_not_use_up_the_deadline(federation: FlareFederation, line: String) -> None:
    asked(federation)
    threading.Timer(0.2, line.cut.add, ("h2",)).start()
    line.silent.add("h2")
    replies = asked(federation)
    assert codes(replies) == {"h2": (Absence.FAILED, "unreachable")}
    assert replies["h2"].traffic.seconds < 30


def test_a_site_that_answers_no_ping_may_be_busy_with_a_slow_link(federation: FlareFederation, line: String) -> None:
    asked(federation)
    line.silent.add("h1")
    federation.deadline = 3.0
    assert codes(asked(federation)) == {"h1": (Absence.LATE, "deadline")}


def test_a_site_that_restarts_during_an_exchange_is_absent(federation: FlareFederation, line: String) -> None:
    def restart() -> None:
        line.asleep.wait()
        line.restart("h3")

    asked(federation)
    threading.Thread(target=restart, daemon=True).start()
    replies = asked(federation, "sleep", to=["h3"])
    assert codes(replies) == {"h3": (Absence.FAILED, "restarted")}
    assert replies["h3"].traffic.seconds < 30
    assert codes(asked(federation)) == {}


def test_a_site_that_restarts_between_exchanges_is_greeted_again(federation: FlareFederation, line: String) -> None:
    asked(federation)
    line.restart("h1")
    assert codes(asked(federation)) == {}
    line.restart("h1")
    assert federation.wait_for(3, 60.0) == ["h1", "h2", "h3"]
    assert codes(asked(federation)) == {}


def test_the_deadline(federation: FlareFederation) -> None:
    federation.deadline = 0.3
    started = time.monotonic()
    assert codes(asked(federation, "sleep")) == dict.fromkeys(federation.sites, (Absence.LATE, "deadline"))
    assert 0.3 <= time.monotonic() - started < 30


def test_replies_arrive_as_they_come(federation: FlareFederation, line: String) -> None:
    line.silent.add("h1")
    replies = federation.ask("train", QUESTION)
    assert {next(replies).site, next(replies).site} == {"h2", "h3"}
    line.cut.add("h1")
    assert next(replies).site == "h1"


def with_values(envelope: Envelope, signer: str, **values: Any) -> Envelope:
    header = decode(envelope.header)
    changed = encode(Message({**header.values, **values}, {}, header.blobs))
    return Envelope(changed, Initials(signer).sign(changed), envelope.body)


ALTERED: dict[str, tuple[Callable[[Envelope], Envelope], str]] = {
    "truncated": (lambda reply: replace(reply, body=reply.body[:-1]), "length"),
    "altered": (lambda reply: replace(reply, body=bytes(len(reply.body))), "digest"),
    "unsigned": (lambda reply: replace(reply, signature=b""), "signature"),
    "signed by another site": (lambda reply: with_values(reply, "h3"), "signature"),
    "in another's name": (lambda reply: with_values(reply, "h2", site="h3"), "site"),
    "to another request": (lambda reply: with_values(reply, "h2", request="0" * 64), "request"),
    "of another study": (lambda reply: with_values(reply, "h2", study="t"), "study"),
    "of another version": (lambda reply: with_values(reply, "h2", version=1), "version"),
    "without header": (lambda reply: replace(reply, header=b""), "mark"),
    "nothing": (lambda reply: Envelope(b"", b""), "mark"),
    "a text for a code": (lambda reply: with_values(reply, "h2", status="failed", code="Mrs Marker"), "unknown"),
}


@pytest.mark.parametrize(("alter", "code"), ALTERED.values(), ids=ALTERED)
def test_a_reply_with_an_invalid_signature_is_refused(
    federation: FlareFederation,
    line: String,
    caplog: pytest.LogCaptureFixture,
    alter: Callable[[Envelope], Envelope],
    code: str,
) -> None:
    asked(federation)
    line.alter["h2"] = alter
    with caplog.at_level(logging.INFO):
        assert codes(asked(federation)) == {"h2": (Absence.FAILED, code)}
    assert f"site=h2 step=train absent: {code}" in caplog.text
    assert "Marker" not in caplog.text
    line.alter.clear()
    assert codes(asked(federation)) == {}


def test_an_answer_that_is_not_a_message_is_an_absence(federation: FlareFederation) -> None:
    replies = asked(federation, "garble")
    assert codes(replies) == dict.fromkeys(federation.sites, (Absence.FAILED, "mark"))
    assert {reply.traffic.up for reply in replies.values()} == {len("Mrs Marker")}  # its bytes did pass


def test_a_welcome_of_another_site_is_refused(federation: FlareFederation, line: String) -> None:
    line.alter["h2"] = lambda reply: line.desks["h3"].answer(Envelope(b"", b""))
    assert codes(asked(federation)) == {"h2": (Absence.FAILED, "certificate")}


def test_a_site_that_has_not_accepted(federation: FlareFederation, line: String) -> None:
    line.accepted["h1"] = False
    assert codes(asked(federation)) == {"h1": (Absence.REFUSED, "not-accepted")}
    with pytest.raises(FederationError) as caught:
        federation.wait_for(3, 0.05)
    assert str(caught.value) == "2 sites are present; the study needs 3 (h1 not-accepted)"
    threading.Timer(0.2, line.accepted.update, ({"h1": True},)).start()
    assert federation.wait_for(3, 60.0) == ["h1", "h2", "h3"]


def test_waiting_ends_when_enough_sites_are_present(federation: FlareFederation, line: String) -> None:
    line.cut |= {"h1", "h3"}
    assert federation.wait_for(1, 0.0) == ["h2"]
    with pytest.raises(FederationError, match="1 sites are present; the study needs 2"):
        federation.wait_for(2, 0.05)


def test_the_end_of_a_study_reaches_every_reachable_site(federation: FlareFederation, line: String) -> None:
    line.cut.add("h2")
    line.silent.add("h3")
    federation.announce_end()
    assert [site for site, desk in line.desks.items() if desk.over.is_set()] == ["h1"]


def test_an_unexpected_error_excludes_one_site(
    federation: FlareFederation, line: String, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(reply: Envelope) -> Envelope:
        raise KeyError("Mrs Marker")

    line.alter["h2"] = broken
    assert codes(asked(federation)) == {"h2": (Absence.FAILED, "transport")}
    assert "KeyError" in caplog.text and "Marker" not in caplog.text


def test_abandoned_replies_stop_the_requests(federation: FlareFederation, line: String) -> None:
    asked(federation)
    line.silent |= {"h1", "h2", "h3"}
    before = threading.active_count()
    replies: Iterator[Reply] = federation.ask("train", QUESTION)
    threading.Timer(0.3, line.cut.add, ("h1",)).start()
    assert next(replies).site == "h1"
    replies.close()  # type: ignore[attr-defined]
    assert eventually(lambda: threading.active_count() <= before, 30.0)  # half of the deadline
