"""Connections: parsing of requests, which connection is displaced, and exhausted descriptors."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from tests.processes import eventually
from tests.secure_aggregation.keys.serving import Served, code, prepared, service

from wardround.secure_aggregation.keys.connections import parse_request, response
from wardround.secure_aggregation.keys.limits import Limits

HEAD = b"POST / HTTP/1.1\r\nHost: keys\r\n"


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (b"", None),
        (b"POST / HT", None),
        (HEAD + b"Content-Length: 3\r\n\r\n", None),
        (HEAD + b"Content-Length: 3\r\n\r\nab", None),
        (HEAD + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (HEAD + b"content-length:3\r\n\r\nabcd", b"abc"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (HEAD + b"Content-Length: 4097\r\n\r\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"GET / HTTP/1.1\r\n\r\n", HTTPStatus.NOT_IMPLEMENTED),
        (b"POST / HTTP/2\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"x" * 8193, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_requests_are_parsed(received: bytes, expected: bytes | HTTPStatus | None) -> None:
    assert parse_request(received) == expected


def test_a_response_says_how_long_it_is() -> None:
    head, _, body = response(HTTPStatus.OK, b"abc").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n") and b"Content-Length: 3" in head and body == b"abc"


@contextmanager
def running(folder: Path, limits: Limits) -> Iterator[Served]:
    made = prepared(folder)
    with service(made, limits=limits) as serving:
        made.port = serving.port
        yield made


def connected(served: Served, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), 60, source_address=(address, 0))


def is_closed(one: socket.socket) -> bool:
    """Return whether the other side closed the connection without sending anything."""
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_the_oldest_stranger_of_an_address_is_displaced_first(tmp_path: Path) -> None:
    limits = Limits(strangers_per_address=2, handshake_seconds=600.0)
    with running(tmp_path, limits) as served, ExitStack() as held:
        other = held.enter_context(connected(served, "127.0.1.1"))
        many = [held.enter_context(connected(served, "127.0.1.2")) for _ in range(6)]
        assert eventually(lambda: [is_closed(one) for one in many] == [True] * 4 + [False] * 2)
        assert not is_closed(other)


def test_strangers_of_an_address_with_many_are_displaced_first(tmp_path: Path) -> None:
    limits = Limits(strangers=4, handshake_seconds=600.0)
    with running(tmp_path, limits) as served, ExitStack() as held:
        first = held.enter_context(connected(served, "127.0.1.1"))
        many = [held.enter_context(connected(served, "127.0.1.2")) for _ in range(3)]
        second = held.enter_context(connected(served, "127.0.1.3"))
        assert eventually(lambda: [is_closed(one) for one in many] == [True, False, False])
        assert not is_closed(first) and not is_closed(second)


def test_strangers_from_an_address_of_a_party_are_displaced_last(tmp_path: Path) -> None:
    limits = Limits(strangers=4, handshake_seconds=600.0)
    with running(tmp_path, limits) as served, ExitStack() as held:
        for _ in range(2):  # the first time its certificate is not known yet
            assert not code(lambda: served.client("h1").secret(1))
        assert eventually(lambda: len(served.log) == 2)
        known = [held.enter_context(connected(served, "127.0.0.1")) for _ in range(2)]
        many = [held.enter_context(connected(served, f"127.0.2.{number}")) for number in range(1, 20)]
        assert eventually(lambda: sum(map(is_closed, many)) == 17)
        assert not any(map(is_closed, known))


class Exhausted:
    """A listener that cannot accept at first, as if the process had no free descriptors."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self._listener, self._times = listener, times
        self.refusals = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._listener, name)

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals < self._times:
            self.refusals += 1
            raise OSError(errno.EMFILE, "too many open files")
        return self._listener.accept()


def test_the_service_waits_while_descriptors_are_exhausted_and_then_continues(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    serving = service(made)
    made.port = serving.port
    listener = Exhausted(serving._connections._listener, 2)
    serving._connections._listener = listener  # type: ignore[assignment]
    with serving:
        assert not code(lambda: made.client("h1").secret(1))
    assert listener.refusals == 2


def test_an_error_does_not_end_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared(tmp_path)
    serving = service(made)
    made.port = serving.port
    real, failures = serving._connections._serve, [RuntimeError("can't start new thread")]

    def serve(ready: object) -> None:
        if failures:
            raise failures.pop()
        real(ready)  # type: ignore[arg-type]

    monkeypatch.setattr(serving._connections, "_serve", serve)
    with serving:
        assert not code(lambda: made.client("h1").secret(1))
