"""Replayed, forged and misdirected messages, without a network: each is refused with its code."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.federation.engines.flare.initials import Initials

from wardround.errors import MessageError
from wardround.federation.engines.flare.requests import (
    CoordinatorSession,
    Envelope,
    Request,
    SiteSession,
    digest_of,
)
from wardround.federation.federation import Absence
from wardround.federation.message import Message, decode, encode

STUDY = digest_of(b"[study]")


def reception(site: str = "h1", study: str = STUDY) -> SiteSession:
    return SiteSession(site, study=study, signatures=Initials(site), coordinator=b"coordinator")


def correspondence(site: str = "h1", study: str = STUDY, signer: str = "coordinator") -> CoordinatorSession:
    return CoordinatorSession(site, study=study, signatures=Initials(signer))


def greet(ours: CoordinatorSession, theirs: SiteSession) -> CoordinatorSession:
    hello = ours.hello()
    assert ours.accept_welcome(hello, theirs.welcome(theirs.open(hello))).absence is None
    return ours


def asked(ours: CoordinatorSession, body: bytes = b"question", step: str = "train", number: int = 3) -> Envelope:
    return ours.ask(step, number, body, digest_of(body))


def code_of(action: Callable[[], Any]) -> str:
    with pytest.raises(MessageError) as caught:
        action()
    return caught.value.code


def altered(envelope: Envelope, signer: str | None = None, **values: Any) -> Envelope:
    """Return the envelope with changed header values, under the old signature or a new one."""
    message = decode(envelope.header)
    header = encode(Message({**message.values, **values}, {}, message.blobs))
    signature = envelope.signature if signer is None else Initials(signer).sign(header)
    return Envelope(header, signature, envelope.body)


def test_a_round_trip() -> None:
    theirs = reception()
    ours = greet(correspondence(), theirs)
    assert ours.nonce == theirs.nonce
    envelope = asked(ours)
    request = theirs.open(envelope)
    assert (request.kind, request.step, request.round, request.body) == ("ask", "train", 3, b"question")
    assert request.number == theirs.last == 1
    answer = ours.answer(envelope, theirs.answer(request, b"answer"))
    assert answer.body == b"answer" and answer.absence is None
    assert theirs.open(ours.over()).kind == "over"
    assert theirs.last == 2


def test_an_absence_is_signed_too() -> None:
    theirs = reception()
    ours = greet(correspondence(), theirs)
    envelope = asked(ours)
    for absence in (Absence.FAILED, Absence.REFUSED):
        answer = ours.answer(envelope, theirs.absence(envelope.header, absence, "TrainingError"))
        assert (answer.absence, answer.code, answer.body) == (absence, "TrainingError", b"")


def test_a_site_may_refuse_a_greeting_with_a_code() -> None:
    ours, theirs = correspondence(), reception()
    hello = ours.hello()
    answer = ours.accept_welcome(hello, theirs.absence(hello.header, Absence.REFUSED, "not-accepted"))
    assert (answer.absence, answer.code, ours.nonce) == (Absence.REFUSED, "not-accepted", "")


def test_text_is_not_accepted_as_a_code_even_if_signed() -> None:
    theirs = reception()
    ours = greet(correspondence(), theirs)
    envelope = asked(ours)
    reply = altered(theirs.absence(envelope.header, Absence.FAILED, "x"), "h1", code="Mrs Marker")
    assert ours.answer(envelope, reply).code == "unknown"
    assert ours.answer(envelope, theirs.absence(envelope.header, Absence.FAILED, "Mrs Marker")).code == "unknown"


class TestAtTheSite:
    """Return the code with which a site refuses a request."""

    def setup_method(self) -> None:
        self.theirs = reception()
        self.ours = greet(correspondence(), self.theirs)

    def refusal(self, envelope: Envelope) -> str:
        before = self.theirs.last
        code = code_of(lambda: self.theirs.open(envelope))
        assert self.theirs.last == before or code == "replay"
        return code

    def test_a_replayed_request_is_refused(self) -> None:
        first, second = asked(self.ours), asked(self.ours)
        self.theirs.open(second)
        assert self.refusal(second) == "replay"
        assert self.refusal(first) == "replay"
        self.theirs.open(asked(self.ours))

    def test_a_request_recorded_before_the_site_started_again(self) -> None:
        recorded = asked(self.ours)
        self.theirs = reception()
        assert self.refusal(recorded) == "session"
        greet(self.ours, self.theirs)
        self.theirs.open(asked(self.ours))

    def test_a_request_that_another_site_signed(self) -> None:
        assert self.refusal(altered(asked(self.ours), "h2")) == "signature"
        forger = greet(correspondence(), self.theirs)
        forger._signatures = Initials("h2")
        assert self.refusal(asked(forger)) == "signature"

    def test_an_altered_header(self) -> None:
        assert self.refusal(altered(asked(self.ours), step="upload")) == "signature"
        assert self.refusal(altered(asked(self.ours), round=4)) == "signature"

    def test_another_body(self) -> None:
        assert self.refusal(replace(asked(self.ours), body=b"Question")) == "digest"
        assert self.refusal(replace(asked(self.ours), body=b"questio")) == "length"
        assert self.refusal(replace(asked(self.ours), body=b"")) == "length"

    def test_another_study(self) -> None:
        other = correspondence(study=digest_of(b"[other]"))
        other._nonce = self.theirs.nonce
        assert self.refusal(asked(other)) == "study"
        assert self.refusal(other.hello()) == "study"

    def test_another_site(self) -> None:
        other = correspondence("h2")
        other._nonce = self.theirs.nonce
        assert self.refusal(asked(other)) == "site"
        assert self.refusal(other.hello()) == "site"

    @pytest.mark.parametrize("version", [0, 1, 2, 4, 10**6])
    def test_another_version(self, version: int) -> None:
        assert self.refusal(altered(asked(self.ours), "coordinator", version=version)) == "version"

    @pytest.mark.parametrize(
        ("name", "value", "code"),
        [
            ("version", "2", "value-missing"),
            ("version", True, "value-missing"),
            ("study", None, "value-missing"),
            ("kind", "run", "kind"),
            ("kind", 1, "value-missing"),
            ("number", 1.5, "value-missing"),
            ("number", -1, "replay"),
            ("number", 0, "replay"),
            ("nonce", "", "session"),
            ("digest", 5, "value-missing"),
            ("bytes", -1, "length"),
            ("step", ["train"], "value-missing"),
            ("round", "3", "value-missing"),
        ],
    )
    def test_invalid_headers_are_refused(self, name: str, value: Any, code: str) -> None:
        assert self.refusal(altered(asked(self.ours), "coordinator", **{name: value})) == code

    def test_a_truncated_or_oversized_header_is_refused(self) -> None:
        envelope = asked(self.ours)
        for length in range(len(envelope.header)):
            assert self.refusal(replace(envelope, header=envelope.header[:length])) in ("mark", "length")
        text = json.dumps({"values": {"a": "x" * 70_000}, "arrays": [], "blobs": []}).encode()
        endless = b"WRM1" + struct.pack("<I", len(text)) + text
        assert self.refusal(replace(envelope, header=endless)) == "header"
        assert self.refusal(replace(envelope, header=b"WRM9" + envelope.header[4:])) == "version"

    def test_a_refused_request_does_not_use_its_number(self) -> None:
        envelope = asked(self.ours)
        assert self.refusal(replace(envelope, body=b"")) == "length"
        assert self.theirs.open(envelope).number == 1


class TestAtTheCoordinator:
    """Return the code with which a coordinator refuses an answer."""

    def setup_method(self) -> None:
        self.theirs = reception()
        self.ours = greet(correspondence(), self.theirs)
        self.envelope = asked(self.ours)
        self.request: Request = self.theirs.open(self.envelope)
        self.reply = self.theirs.answer(self.request, b"answer")

    def refusal(self, reply: Envelope) -> str:
        return code_of(lambda: self.ours.answer(self.envelope, reply))

    def test_an_answer_to_another_request(self) -> None:
        second = asked(self.ours)
        late = self.theirs.answer(self.theirs.open(second), b"answer")
        assert self.refusal(late) == "request"
        assert self.ours.answer(second, late).body == b"answer"

    def test_an_answer_of_another_site(self) -> None:
        other = reception("h2")
        request = other.open(asked(greet(correspondence("h2"), other)))
        assert self.refusal(other.answer(request, b"answer")) == "signature"
        assert self.refusal(altered(self.reply, "h2")) == "signature"
        assert self.refusal(altered(self.reply, "h1", site="h2")) == "site"
        assert self.refusal(altered(self.reply, "h1", study="")) == "study"

    def test_an_altered_answer(self) -> None:
        assert self.refusal(replace(self.reply, body=b"Answer")) == "digest"
        assert self.refusal(replace(self.reply, body=b"answer!")) == "length"
        assert self.refusal(altered(self.reply, status="failed")) == "signature"

    def test_an_answer_of_another_version_or_of_unknown_form_is_refused(self) -> None:
        assert self.refusal(altered(self.reply, "h1", version=1)) == "version"
        assert self.refusal(altered(self.reply, "h1", status="maybe")) == "status"
        assert self.refusal(Envelope(b"", b"")) == "mark"

    def test_a_welcome_of_another_site_or_an_old_one_is_refused(self) -> None:
        ours = correspondence()
        first, second = ours.hello(), ours.hello()
        old = self.theirs.welcome(self.theirs.open(first))
        assert code_of(lambda: ours.accept_welcome(second, old)) == "request"
        other = reception("h2")
        welcome = other.welcome(other.open(correspondence("h2").hello()))
        assert code_of(lambda: ours.accept_welcome(second, welcome)) == "certificate"
        assert ours.nonce == ""

    def test_a_restarted_coordinator_continues_above_the_last_number(self) -> None:
        again = greet(correspondence(), self.theirs)
        assert self.theirs.open(asked(again)).number == 2
        assert code_of(lambda: self.theirs.open(asked(self.ours))) == "replay"

    def test_a_site_must_be_greeted_again_after_forget(self) -> None:
        self.ours.forget()
        assert self.ours.nonce == ""


def test_a_body_does_not_appear_in_logs() -> None:
    assert "Marker" not in repr(Envelope(b"", b"", b"Mrs Marker"))
    assert "Marker" not in repr(Request("ask", b"", body=b"Mrs Marker"))
