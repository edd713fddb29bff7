"""Messages on the wire of a networked study: signed headers, each bound to its body, its site and its request.

    coordinator                                    site
    hello   study, site, challenge          ->
                                            <-     welcome  challenge, nonce of this start, last number, certificate
    ask     nonce, number, step, round,     ->
            digest of the body
                                            <-     answer   digest of the request's header, digest of the body;
                                                            or a code instead of a body

Every header is signed. A site follows a request only if the coordinator's certificate signed it for this site and this
study, with the nonce that the site drew when it started and a number above all earlier ones; a recorded request cannot
be replayed. An answer names its request, so it cannot be mistaken for the answer of another site or another round.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from wardround.errors import MessageError
from wardround.federation.federation import Absence, SiteId, safe_code
from wardround.federation.message import Message, Value, decode, encode

__all__ = [
    "COORDINATOR",
    "VERSION",
    "Answer",
    "CoordinatorSession",
    "Envelope",
    "FlareParty",
    "Request",
    "Signatures",
    "SiteSession",
    "digest_of",
]

VERSION = 3  # of the messages between the parties; 2 had other names for the steps of secure aggregation
COORDINATOR = "coordinator"  # its name in certificates
_LARGEST_HEADER = 65_536  # bytes; a welcome with a certificate has some two thousand
_ANSWERED = "answered"
_STATUSES = {"failed": Absence.FAILED, "refused": Absence.REFUSED}


class Signatures(Protocol):
    """Signs with a party's own key, and verifies what others signed, up to the root of the study."""

    certificate: bytes

    def sign(self, data: bytes) -> bytes:
        """Return the signature over `data`."""

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        """Raise a `MessageError` unless the holder of `certificate`, issued to `name`, signed `data`."""


@dataclass(frozen=True)
class FlareParty:
    """One party of a networked study: who it is, where it connects, and its keys and certificates."""

    name: str
    study: str  # SHA-256 of the study file
    host: str  # of the coordinator
    port: int
    sites: tuple[SiteId, ...]
    folder: Path  # for logs
    key: Path
    certificate: Path
    root: Path  # the certificate of the study's authority
    coordinator_certificate: Path


@dataclass(frozen=True)
class Envelope:
    """A header, its signature and the body that it describes."""

    header: bytes
    signature: bytes
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Request:
    """A request that is known to come from the coordinator."""

    kind: str  # hello, ask or over
    header: bytes = field(repr=False)
    number: int = 0
    step: str = ""
    round: int = 0
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Answer:
    """An answer that is known to come from the site: a body, or the reason why there is none."""

    body: bytes = field(default=b"", repr=False)
    absence: Absence | None = None
    code: str = ""


def digest_of(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()


class CoordinatorSession:
    """The coordinator's session with one site. Not safe for concurrent use by threads."""

    def __init__(self, site: SiteId, *, study: str, signatures: Signatures) -> None:
        self.site = site
        self._study = study
        self._signatures = signatures
        self._nonce = ""
        self._number = 0
        self._certificate = b""

    @property
    def nonce(self) -> str:
        """Return the nonce that the site drew when it started; empty until the site is greeted."""
        return self._nonce

    def hello(self) -> Envelope:
        """Return a greeting with a fresh challenge."""
        return self._signed({"kind": "hello", "challenge": secrets.token_hex(16)})

    def accept_welcome(self, hello: Envelope, welcome: Envelope) -> Answer:
        """Learn the site's nonce and certificate from its answer to `hello`; return the answer."""
        header = _decoded(welcome)
        certificate = header.blobs.get("certificate", b"")
        self._check_origin(welcome, header, certificate, hello)
        answer = _answer(header, welcome.body)
        if answer.absence is None:
            # The site signed the digest of the greeting, which contains the challenge: this welcome is fresh.
            self._nonce, self._number = header.value("nonce", str), header.value("number", int)
            self._certificate = certificate
        return answer

    def ask(self, step: str, round_number: int, body: bytes, digest: str) -> Envelope:
        """Return a request with the next number; `digest` is that of the body, computed once for all sites."""
        asked: dict[str, Value] = {"kind": "ask", "step": step, "round": round_number}
        return self._numbered(asked, body, digest)

    def over(self) -> Envelope:
        """Return the message that the study is over."""
        return self._numbered({"kind": "over", "step": "", "round": 0}, b"", digest_of(b""))

    def answer(self, request: Envelope, reply: Envelope) -> Answer:
        """Return the site's answer to `request`; raise a `MessageError` if the reply is not from the site."""
        header = _decoded(reply)
        self._check_origin(reply, header, self._certificate, request)
        return _answer(header, reply.body)

    def forget(self) -> None:
        """Forget the nonce, so that the site is greeted again."""
        self._nonce = ""

    def _numbered(self, values: dict[str, Value], body: bytes, digest: str) -> Envelope:
        self._number += 1
        return self._signed(
            {**values, "nonce": self._nonce, "number": self._number, "digest": digest, "bytes": len(body)}, body
        )

    def _signed(self, values: dict[str, Value], body: bytes = b"") -> Envelope:
        common: dict[str, Value] = {"version": VERSION, "study": self._study, "site": self.site}
        header = encode(Message({**common, **values}))
        return Envelope(header, self._signatures.sign(header), body)

    def _check_origin(self, reply: Envelope, header: Message, certificate: bytes, request: Envelope) -> None:
        self._signatures.check(reply.header, reply.signature, certificate=certificate, name=self.site)
        if header.value("study", str) != self._study:
            raise MessageError("study", "the answer belongs to another study")
        if header.value("site", str) != self.site:
            raise MessageError("site", "another site answered")
        if header.value("request", str) != digest_of(request.header):
            raise MessageError("request", "the answer is to another request")


class SiteSession:
    """A site's session with the coordinator. May be used by several threads."""

    def __init__(self, site: SiteId, *, study: str, signatures: Signatures, coordinator: bytes) -> None:
        self._site = site
        self._study = study
        self._signatures = signatures
        self._coordinator = coordinator  # its certificate, from the kit
        self.nonce = secrets.token_hex(16)
        self._last = 0
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """Return the number of the newest valid request."""
        return self._last

    def open(self, envelope: Envelope) -> Request:
        """Return the request in an envelope; raise a `MessageError` if it must not be followed."""
        header = _decoded(envelope)
        self._signatures.check(envelope.header, envelope.signature, certificate=self._coordinator, name=None)
        if header.value("study", str) != self._study:
            raise MessageError("study", "the request belongs to another study")
        if header.value("site", str) != self._site:
            raise MessageError("site", "the request is for another site")
        if header.value("kind", str) == "hello":
            return Request("hello", envelope.header)
        kind, number = header.value("kind", str), header.value("number", int)
        if kind not in ("ask", "over"):
            raise MessageError("kind", "is not a request of this version")
        if header.value("nonce", str) != self.nonce:
            raise MessageError("session", "the request is for an earlier start of this site")
        _check_body(header, envelope.body)
        step, round_number = header.value("step", str), header.value("round", int)
        with self._lock:
            if number <= self._last:
                raise MessageError("replay", "an equal or later request has arrived already")
            self._last = number
        return Request(kind, envelope.header, number, step, round_number, body=envelope.body)

    def welcome(self, request: Request) -> Envelope:
        """Return the answer to a greeting."""
        values: dict[str, Value] = {"status": _ANSWERED, "nonce": self.nonce, "number": self._last}
        return self._reply(request.header, values, b"")

    def answer(self, request: Request, body: bytes) -> Envelope:
        """Return the answer to a request."""
        return self._reply(request.header, {"status": _ANSWERED}, body)

    def absence(self, header: bytes, absence: Absence, code: str) -> Envelope:
        """Return a refusal or failure with a code; `header` is that of the request, valid or not."""
        return self._reply(header, {"status": absence.value, "code": safe_code(code)}, b"")

    def _reply(self, request: bytes, values: dict[str, Value], body: bytes) -> Envelope:
        common: dict[str, Value] = {
            "version": VERSION,
            "study": self._study,
            "site": self._site,
            "request": digest_of(request),
            "digest": digest_of(body),
            "bytes": len(body),
        }
        header = encode(Message({**common, **values}, {}, {"certificate": self._signatures.certificate}))
        return Envelope(header, self._signatures.sign(header), body)


def _decoded(envelope: Envelope) -> Message:
    if len(envelope.header) > _LARGEST_HEADER:
        raise MessageError("header", f"is longer than {_LARGEST_HEADER:,} bytes")
    header = decode(envelope.header)
    if header.value("version", int) != VERSION:
        raise MessageError(
            "version",
            "the other side runs another version of Wardround; install the same version everywhere",
        )
    return header


def _answer(header: Message, body: bytes) -> Answer:
    status = header.value("status", str)
    if status != _ANSWERED:
        if status not in _STATUSES:
            raise MessageError("status", "is not an answer of this version")
        return Answer(absence=_STATUSES[status], code=safe_code(header.values.get("code")))
    _check_body(header, body)
    return Answer(body)


def _check_body(header: Message, body: bytes) -> None:
    if header.value("bytes", int) != len(body):
        raise MessageError("length", "the body is longer or shorter than it was when it was signed")
    if header.value("digest", str) != digest_of(body):
        raise MessageError("digest", "the body is not the one that was signed")
