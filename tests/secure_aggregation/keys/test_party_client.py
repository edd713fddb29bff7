"""A party's client of the key service: which service and which answers it accepts, and its error codes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.processes import free_port
from tests.secure_aggregation.authority import STUDY, Authority
from tests.secure_aggregation.keys.serving import Served, code, prepared, service

from wardround.errors import MessageError
from wardround.federation.message import Message, encode
from wardround.secure_aggregation.keys.material import SealingSecret
from wardround.secure_aggregation.keys.party import KeyClient, parse_address
from wardround.secure_aggregation.keys.peers import PartyFiles, fingerprint_of, tls_server

SECRET = SealingSecret(1, "ckks", bytes(32))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = prepared(tmp_path)
    with service(made) as running:
        made.port = running.port
        yield made


class Impostor:
    """A service with a certificate that answers what the test says."""

    def __init__(self, files: PartyFiles, answer: bytes = b"", status: int = 200) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        heard: list[bytes] = []
        self.heard = heard
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._server.socket = tls_server(files).wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Impostor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def client(served: Served, port: int, known: str = "") -> KeyClient:
    return KeyClient("localhost", port, files=served.parties["h1"], study=STUDY, known=known, seconds=60)


@pytest.mark.parametrize("name", ["h2", "coordinator"])
def test_another_party_does_not_pass_as_the_key_service(name: str, served: Served) -> None:
    with Impostor(served.parties[name], encode(Message(blobs={"secret": SECRET.to_bytes()}))) as impostor:
        assert code(lambda: client(served, impostor.port).secret(1)) == "keys-certificate"
        assert code(lambda: client(served, impostor.port).parameters()) == "keys-certificate"
        assert impostor.heard == []


def test_the_key_service_of_another_study_is_refused(served: Served) -> None:
    with Impostor(served.party("keys", 6, study=Authority(8))) as impostor:
        assert code(lambda: client(served, impostor.port).secret(1)) == "keys-certificate"
        assert impostor.heard == []


def test_a_second_certificate_with_the_services_name_is_refused(served: Served) -> None:
    known = fingerprint_of(served.parties["keys"].certificate.read_bytes())
    met = client(served, served.port)
    met.parameters()
    assert met.known == known
    forged = served.party("keys", 6)  # whoever holds the authority can make it
    with Impostor(forged, encode(Message(blobs={"secret": SECRET.to_bytes()}))) as impostor:
        assert code(lambda: client(served, impostor.port, known).secret(1)) == "keys-certificate"
        assert impostor.heard == []
        assert client(served, impostor.port).secret(1) == SECRET  # which is why the first is remembered


@pytest.mark.parametrize(
    ("answer", "status", "expected"),
    [
        (b"", 200, "mark"),
        (b"<html>", 200, "mark"),
        (encode(Message({"code": "revoked"})), 200, "revoked"),
        (encode(Message({"code": "the patient said"})), 200, "unknown"),
        (encode(Message({"code": 7})), 200, "unknown"),
        (encode(Message()), 200, "mark"),
        (encode(Message(blobs={"secret": SealingSecret(2, "ckks", bytes(32)).to_bytes()})), 200, "keys-answer"),
        (encode(Message(blobs={"secret": SECRET.to_bytes()})), 500, "keys-answer"),
    ],
)
def test_invalid_answers_are_refused(answer: bytes, status: int, expected: str, served: Served) -> None:
    with Impostor(served.parties["keys"], answer, status) as impostor:
        assert code(lambda: client(served, impostor.port).secret(1)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "parameters"),
        ({"parameters": {"epoch": 1}}, "parameters"),
        ({"parameters": SECRET.public("00" * 32).to_values()}, "keys-answer"),
    ],
)
def test_invalid_parameters_in_an_answer_are_refused(values: dict[str, object], expected: str, served: Served) -> None:
    with Impostor(served.parties["keys"], encode(Message(values))) as impostor:  # type: ignore[arg-type]
        assert code(lambda: client(served, impostor.port).parameters()) == expected


def test_an_endless_answer_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.secure_aggregation.keys.party._LARGEST_ANSWER", 1000)
    with Impostor(served.parties["keys"], bytes(5000)) as impostor:
        assert code(lambda: client(served, impostor.port).secret(1)) == "keys-answer"


def test_a_service_that_is_not_running_is_unreachable(served: Served) -> None:
    assert code(lambda: client(served, free_port()).secret(1)) == "keys-unreachable"
    nowhere = KeyClient("nowhere.invalid", 1, files=served.parties["h1"], study=STUDY, seconds=2)
    assert code(nowhere.parameters) == "keys-unreachable"


def test_a_service_that_stays_silent_is_unreachable(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        waiting = KeyClient("localhost", port, files=served.parties["h1"], study=STUDY, seconds=0.5)
        assert code(waiting.parameters) == "keys-unreachable"


def test_the_address_of_the_service_is_parsed() -> None:
    assert parse_address("keys.example.org:8003") == ("keys.example.org", 8003)
    for place in ("", "keys", ":8003", "keys:", "keys:x"):
        with pytest.raises(MessageError, match=r"^keys-unreachable"):
            parse_address(place)
