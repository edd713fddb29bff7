"""Attacks by a web page on the console, which it tries to reach under the name of another host."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the console needs wardround[console]")

from starlette.types import Message, Receive, Scope, Send
from tests.processes import Command, eventually, free_port

from wardround.console.access import Access, Certificate, Guard

MALFORMED = [
    b"localhost:abc",
    b"localhost:",
    b"localhost:80:80",
    b"localhost:65536",
    b"localhost:0",
    b"localhost:+80",
    b"localhost: 80",
    b"localhost:\xb2",  # a superscript two, which Python takes for a digit
    b"localhost:80@evil.example",
    b"127.0.0.1:8800@evil.example",
    b"127.0.0.1@evil.example",
    b"user@localhost",
    b"localhost/evil.example",
    b"localhost:80/evil.example",
    b"localhost:80#evil.example",
    b"localhost:80,evil.example",
    b"localhost, evil.example",
    b"localhost evil.example",
    b"localhost\t",
    b"[::1",
    b"[::1]evil.example",
    b"[::1]:abc",
    b"[::1].evil.example",
    b"[::1%25evil]",
    b"[::1%evil]:80",
    b"[localhost]",
    b"[127.0.0.1]",
    b"::1",
    b"127.1",
    b"2130706433",
    b"",
    b" ",
    b"\xff",
]


def status(access: Access, *hosts: bytes) -> int:
    """Return the status of the answer to a request with these Host headers."""
    said: list[int] = []

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"inside"})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            said.append(message["status"])

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host) for host in hosts]}
    asyncio.run(Guard(inside, access)(scope, receive, send))
    return said[0]


@pytest.mark.parametrize("host", MALFORMED)
def test_a_malformed_host_is_refused(host: bytes) -> None:
    assert status(Access(), host) == 421


def test_several_hosts_or_none_are_refused() -> None:
    assert status(Access()) == 421
    assert status(Access(), b"localhost", b"evil.example") == 421
    assert status(Access(), b"localhost", b"localhost") == 421


@pytest.mark.parametrize("host", [b"localhost:abc", b"ward.example:80@evil.example", b"[::1", b""])
def test_a_console_for_other_machines_refuses_malformed_hosts_too(host: bytes) -> None:
    tls = Certificate(Path("chain.pem"), Path("key.pem"))
    assert status(Access("0.0.0.0", 8800, tls, "t" * 32), host) == 421  # noqa: S104


@pytest.mark.parametrize("host", [b"localhost", b"LOCALHOST:8800", b"127.0.0.1:1", b"127.0.0.2:65535", b"[::1]:80"])
def test_names_of_this_machine_are_served(host: bytes) -> None:
    assert status(Access(), host) == 200


@pytest.fixture
def console(tmp_path: Path) -> Iterator[int]:
    """Return the port of a running console."""
    port = free_port()
    (tmp_path / "runs").mkdir()
    command = Command(tmp_path / "said", "console", tmp_path / "runs", "--port", str(port))
    try:
        assert eventually(lambda: "console" in command.said or command.process.poll() is not None), command.said
        yield port
    finally:
        command.end()


def test_the_running_server_refuses_them_too(console: int) -> None:
    assert answer(console, b"Host: localhost\r\n") == b"200"
    for host in (b"localhost:abc", b"127.0.0.1:80@evil.example", b"[::1", b"evil.example"):
        assert answer(console, b"Host: " + host + b"\r\n") in (b"421", b"400"), host
    for lines in (b"", b"Host:\r\n", b"Host: localhost\r\nHost: evil.example\r\n"):
        assert answer(console, lines) in (b"421", b"400"), lines


def answer(port: int, headers: bytes) -> bytes:
    """Return the status of the server's answer to a request with these headers."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(b"GET / HTTP/1.1\r\n" + headers + b"Connection: close\r\n\r\n")
        return line.makefile("rb").readline().split()[1]
