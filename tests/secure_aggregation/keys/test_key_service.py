"""The key service on a real socket: who gets what, what is logged, and that nobody can block it."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from tests.processes import eventually
from tests.secure_aggregation.authority import STUDY, Authority, lock
from tests.secure_aggregation.keys.serving import SITES, Served, code, new, prepared, service

from wardround.errors import KeyMaterialError
from wardround.federation.message import Message, decode, encode
from wardround.secure_aggregation.keys.key_log import KeyLog
from wardround.secure_aggregation.keys.key_service import KeyRequestHandler
from wardround.secure_aggregation.keys.limits import Limits, Party
from wardround.secure_aggregation.keys.peers import Peer, fingerprint_of, tls_client
from wardround.secure_aggregation.keys.service_state import Epochs


@pytest.fixture
def limits(request: pytest.FixtureRequest) -> Limits:
    """Return the limits of a test; the others keep their defaults."""
    return getattr(request, "param", None) or Limits()


@pytest.fixture
def served(tmp_path: Path, limits: Limits) -> Iterator[Served]:
    made = prepared(tmp_path)
    with service(made, limits=limits) as running:
        made.port = running.port
        yield made


def limited(**more: float) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("limits", [Limits(**more)], indirect=True, ids=[""])  # type: ignore[arg-type]


def outcomes(served: Served) -> list[tuple[str, str, int, str]]:
    return [(line.who, line.asked, line.epoch, line.outcome) for line in served.log]


def post(served: Served, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Send arbitrary bytes as harbour; return the answer."""
    tls = tls_client(served.parties["h1"])
    connection = HTTPSConnection("localhost", served.port, timeout=60, context=tls)
    try:
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def said_to(served: Served, data: bytes) -> bytes:
    """Return the answer to a stranger that does not use TLS."""
    with socket.create_connection(("localhost", served.port), 60) as plain:
        plain.sendall(data)
        try:
            return plain.recv(100)
        except ConnectionResetError:
            return b""


# Who gets what


def test_all_parties_get_the_parameters_and_only_sites_the_secret(served: Served) -> None:
    told = served.epochs.parameters()
    for name in ("coordinator", "h1", "h2", "keys"):
        assert served.client(name).parameters() == told
    for name in ("h1", "h2"):
        assert served.client(name).secret(1) == served.epochs.current()
    assert outcomes(served)[-2:] == [("h1", "secret", 1, "given"), ("h2", "secret", 1, "given")]
    assert served.log[-1].certificate == fingerprint_of(served.parties["h2"].certificate.read_bytes())
    assert served.log[-1].address == "127.0.0.1"


@pytest.mark.parametrize("name", ["coordinator", "keys"])
def test_the_coordinator_is_refused_the_secret(name: str, served: Served) -> None:
    assert code(lambda: served.client(name).secret(1)) == "not-a-site"
    assert outcomes(served) == [(name, "secret", 1, "not-a-site")]
    assert served.epochs.state().given == {}


def test_an_unknown_party_is_refused(served: Served) -> None:
    files = served.party("h9", 5)  # of the study's own authority
    assert code(lambda: served.client(files).secret(1)) == "unknown"
    assert code(lambda: served.client(files).parameters()) == "unknown"
    assert outcomes(served) == [("h9", "secret", 1, "unknown"), ("h9", "parameters", 0, "unknown")]


def test_another_study(served: Served) -> None:
    assert code(lambda: served.client("h1", study="00" * 32).secret(1)) == "study"
    assert code(lambda: served.client("h1", study="00" * 32).parameters()) == "study"


def test_a_revoked_site_is_refused_and_the_others_continue(served: Served) -> None:
    assert served.client("h1").secret(1).epoch == served.client("h2").secret(1).epoch == 1
    # Another process, while the service runs.
    Epochs.open(served.parties["keys"].epochs, lock(), study=STUDY).revoke("h1", new)
    assert [code(lambda e=epoch: served.client("h1").secret(e)) for epoch in (1, 2)] == ["revoked", "revoked"]
    assert code(lambda: served.client("h1").parameters()) == "revoked"
    assert served.client("coordinator").parameters().epoch == 2
    assert code(lambda: served.client("h2").secret(1)) == "epoch"
    fresh = served.client("h2").secret(2)
    assert fresh.epoch == 2 and fresh.id == served.client("coordinator").parameters().id
    assert ("h1", "secret", 2, "revoked") in outcomes(served)


def test_a_second_certificate_is_refused_until_it_is_admitted(served: Served) -> None:
    forged = served.party("h1", 6)  # whoever holds the authority can make it
    served.client("h1").secret(1)
    assert code(lambda: served.client(forged).secret(1)) == "certificate"
    assert outcomes(served)[-1] == ("h1", "secret", 1, "certificate")
    assert served.client("h1").secret(1).epoch == 1  # the site itself is not disturbed
    served.epochs.admit("h1")
    assert served.client(forged).secret(1).epoch == 1
    assert code(lambda: served.client("h1").secret(1)) == "certificate"


def test_an_authority_is_not_a_site_even_if_it_has_a_sites_name(served: Served) -> None:
    files = served.party("h1", 7, ca=True)
    assert code(lambda: served.client(files).secret(1)) == "keys-answer"
    assert served.log[-1].outcome == "no-certificate" and served.epochs.state().given == {}


def test_a_certificate_of_another_study_is_refused(served: Served) -> None:
    files = served.party("h1", 3, study=Authority(8))
    files.root.write_bytes(Authority().pem)  # it trusts the service; the service does not trust it
    assert code(lambda: served.client(files).secret(1)) in ("keys-certificate", "keys-unreachable")
    assert eventually(lambda: bool(served.log))
    assert outcomes(served) == [("", "nothing", 0, "no-certificate")]
    assert served.epochs.state().given == {}


def test_callers_without_a_certificate_or_with_old_tls_are_refused(served: Served) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(served.parties["h1"].root)
    old = tls_client(served.parties["h1"])
    with pytest.warns(DeprecationWarning):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    for context in (bare, old):
        with pytest.raises(OSError):
            connection = HTTPSConnection("localhost", served.port, timeout=60, context=context)
            try:
                connection.request("POST", "/", encode(Message({"ask": "parameters", "study": STUDY})))
                connection.getresponse()
            finally:
                connection.close()
    assert b"HTTP/1" not in said_to(served, b"POST / HTTP/1.0\r\n\r\n")


# What is asked


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "mark"),
        (b"hello", "mark"),
        (encode(Message()), "value-missing"),
        (encode(Message({"ask": "everything", "study": STUDY})), "request"),
        (encode(Message({"ask": "secret", "study": STUDY})), "value-missing"),
        (encode(Message({"ask": "secret", "study": STUDY, "epoch": "1"})), "value-missing"),
        (encode(Message({"ask": "secret", "study": STUDY, "epoch": True})), "value-missing"),
        (encode(Message({"ask": "secret", "study": STUDY, "epoch": 2})), "epoch"),
        (encode(Message({"ask": "secret", "study": STUDY, "epoch": -1})), "epoch"),
        (encode(Message({"ask": "secret", "study": STUDY, "epoch": 2**63})), "epoch"),
        (encode(Message({"ask": "secret", "epoch": 1})), "value-missing"),
    ],
)
def test_invalid_requests_are_refused(body: bytes, expected: str, served: Served) -> None:
    status, answer = post(served, body)
    assert (status, decode(answer).values) == (200, {"code": expected})
    assert served.log[-1].outcome == expected


@pytest.mark.parametrize("length", ["4097", "-1", "x", "", "1e3", "99999999999999999999", "²"])
def test_a_body_of_an_invalid_length_is_not_read(length: str, served: Served) -> None:
    tls = tls_client(served.parties["h1"])
    with socket.create_connection(("localhost", served.port), 60) as plain, tls.wrap_socket(plain) as secured:
        secured.sendall(b"POST / HTTP/1.0\r\nContent-Length: " + length.encode() + b"\r\n\r\n")
        answer = secured.recv(100)
    assert answer.split()[1] in (b"413", b"400")
    assert served.log == []


def test_other_methods_do_nothing(served: Served) -> None:
    tls = tls_client(served.parties["h1"])
    for method in ("GET", "PUT", "DELETE"):
        connection = HTTPSConnection("localhost", served.port, timeout=60, context=tls)
        connection.request(method, "/epochs.vault")
        assert connection.getresponse().status == 501
        connection.close()


# What is noted


def test_no_secret_is_in_the_log_or_in_what_is_printed(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    secret = served.client("h1").secret(1)
    for name in ("h1", "coordinator"):
        code(lambda n=name: served.client(n).secret(7))
    text = served.parties["keys"].log.read_bytes()
    assert b"SECRET" in secret.secret
    for word in (b"SECRET", secret.secret.hex().encode(), secret.group_key.hex().encode()):
        assert word not in text
    assert capfd.readouterr() == ("", "")
    kept = served.parties["keys"].epochs.read_bytes()
    assert b"SECRET" not in kept and b'"h1"' not in kept  # two bytes alone turn up in ciphertext by chance


def test_no_key_is_sent_if_the_log_cannot_be_written(served: Served) -> None:
    served.parties["keys"].log.mkdir()
    assert code(lambda: served.client("h1").secret(1)) == "log"
    served.parties["keys"].log.rmdir()
    assert served.client("h1").secret(1).epoch == 1


def test_an_unreadable_vault_yields_no_key_and_the_service_continues(served: Served) -> None:
    vault = served.parties["keys"].epochs
    vault.chmod(0o644)
    assert code(lambda: served.client("h1").secret(1)) == "KeyMaterialError"
    assert code(lambda: served.client("coordinator").parameters()) == "KeyMaterialError"
    vault.chmod(0o600)
    assert served.client("h1").secret(1).epoch == 1


# Nobody holds it up


@limited(handshake_seconds=2.0)
def test_stalled_connections_delay_no_one_and_are_closed(served: Served) -> None:
    silent = [socket.create_connection(("localhost", served.port)) for _ in range(10)]
    try:
        started = time.monotonic()
        assert served.client("h1").secret(1).epoch == 1
        assert time.monotonic() - started < 15  # one after the other, those before it would take twenty
        for stalled in silent:
            stalled.settimeout(60)
            assert stalled.recv(1) == b""
    finally:
        for stalled in silent:
            stalled.close()


@limited(read_seconds=3.0)
def test_a_very_slow_sender_is_disconnected(served: Served) -> None:
    tls = tls_client(served.parties["h1"])
    with socket.create_connection(("localhost", served.port), 60) as plain, tls.wrap_socket(plain) as secured:
        started = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - started < 60:
                secured.sendall(b"P")
                time.sleep(0.1)
        assert 0.5 < time.monotonic() - started < 50


@limited(handshake_seconds=600.0, read_seconds=600.0)  # nobody is sent off for anything else
def test_above_the_limit_connections_are_closed(served: Served) -> None:
    many = [socket.create_connection(("localhost", served.port)) for _ in range(70)]
    try:
        assert eventually(lambda: sum(map(is_closed, many)) >= 6)
    finally:
        for one in many:
            one.close()
    assert eventually(lambda: not code(lambda: served.client("h1").secret(1)))


def is_closed(one: socket.socket) -> bool:
    """Return whether the other side closed the connection without sending anything."""
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_many_sites_are_served_at_the_same_time(served: Served) -> None:
    found: list[int] = []
    ask = lambda name: found.append(served.client(name).secret(1).epoch)  # noqa: E731
    threads = [threading.Thread(target=ask, args=(name,)) for name in ("h1", "h2") * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 12 and len(served.log) == 12


def test_strangers_do_not_fill_the_log(served: Served) -> None:
    for _ in range(20):
        said_to(served, b"hello, hello, hello")
    assert eventually(lambda: bool(served.log))
    assert 1 <= len(served.log) <= 3


@limited(burst=3, requests_per_second=0.001)
def test_a_party_that_asks_too_often_is_refused_and_logged_once(served: Served) -> None:
    asked = [code(lambda: served.client("h1").secret(1)) for _ in range(6)]
    assert asked == ["", "", "", "", "busy", "busy"]  # the first was before its certificate was known
    assert eventually(lambda: served.log[-1].outcome == "busy")
    assert outcomes(served) == [("h1", "secret", 1, "given")] * 4 + [("h1", "nothing", 0, "busy")]
    assert not code(lambda: served.client("h2").secret(1))


@limited(per_party=1, read_seconds=600.0)
def test_a_party_has_its_own_slots(served: Served) -> None:
    tls = tls_client(served.parties["h1"])
    assert not code(lambda: served.client("h1").secret(1))
    with socket.create_connection(("localhost", served.port), 60) as plain, tls.wrap_socket(plain):
        # The server's end of the handshake may come after the client's.
        assert eventually(lambda: code(lambda: served.client("h1").secret(1)) == "keys-unreachable")
        assert not code(lambda: served.client("h2").secret(1))
        forged = served.party("h1", 6)
        assert code(lambda: served.client(forged).secret(1)) == "certificate"
    assert eventually(lambda: not code(lambda: served.client("h1").secret(1)))


def test_a_very_long_name_is_truncated_in_the_log(served: Served) -> None:
    handler = key_request_handler(served)
    handler.answer(encode(Message({"ask": "parameters", "study": STUDY})), Peer("x" * 5000, "SHA256:01"))
    assert (served.log[-1].who, served.log[-1].outcome) == ("x" * 64, "unknown")


def test_whose_slots_a_peer_uses(served: Served) -> None:
    served.client("h1").secret(1)
    handler = key_request_handler(served)
    own = fingerprint_of(served.parties["h1"].certificate.read_bytes())
    assert handler.party(Peer("h1", own)) == Party("h1", True)
    assert handler.party(Peer("h1", "SHA256:99")) == Party("h1", False)
    assert handler.party(Peer("h2", "SHA256:99")) == Party("h2", False)  # nobody asked in its name yet
    assert handler.party(Peer("coordinator", "SHA256:99")) == Party("coordinator", True)
    assert handler.party(Peer("h9", "SHA256:99")) == handler.party(None) == Party("", False)


def key_request_handler(served: Served) -> KeyRequestHandler:
    return KeyRequestHandler(served.epochs, KeyLog(served.parties["keys"].log), study=STUDY, sites=SITES)


def test_a_port_that_is_taken(served: Served) -> None:
    with pytest.raises(KeyMaterialError, match=rf"^port {served.port} cannot be listened on"):
        service(served, served.port)


def test_a_service_can_be_started_again_after_close(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    with service(made) as first:
        made.port = first.port
        secret = made.client("h1").secret(1)
    assert code(lambda: made.client("h1").secret(1)) == "keys-unreachable"
    made.epochs = Epochs.open(made.parties["keys"].epochs, lock(), study=STUDY)
    with service(made, made.port):
        assert made.client("h1").secret(1) == secret
