"""Attacks on the key service: strangers and parties that block others, and restored states."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.processes import eventually, open_files
from tests.secure_aggregation.authority import PASSPHRASE, STUDY, lock, rsa_key
from tests.secure_aggregation.keys.serving import SITES, Served, code, new, prepared, service

from wardround.errors import KeyMaterialError
from wardround.federation.message import Message, encode
from wardround.secure_aggregation.keys.copies import SealedCopy
from wardround.secure_aggregation.keys.key_log import KeyLog
from wardround.secure_aggregation.keys.party import SiteKeys
from wardround.secure_aggregation.keys.peers import PartyFiles, tls_client
from wardround.secure_aggregation.keys.service_state import Epochs

ROOT = Path(__file__).resolve().parents[2]
MANY = 80  # connections of an attacker
REQUESTS = 6  # of parties, while the attack goes on
FEW_THREADS = 12


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = prepared(tmp_path)
    with service(made) as running:
        made.port = running.port
        yield made


def hello() -> bytes:
    """Return the first message of a TLS handshake, as any client sends it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def connected(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60, source_address=(address, 0))


@contextmanager
def strangers(port: int, said: bytes = b"", *, addresses: int = 1, count: int = MANY) -> Iterator[list[socket.socket]]:
    """Open connections that send something or nothing, and then wait."""
    with ExitStack() as held:
        opened = [connected(port, f"127.0.1.{1 + number % addresses}") for number in range(count)]
        for one in opened:
            held.enter_context(one)
            with suppress(OSError):
                one.sendall(said)
        yield opened


@contextmanager
def parties(served: Served, files: PartyFiles, said: bytes, *, count: int = MANY) -> Iterator[None]:
    """Open connections of a party of the study that finish the handshake, send something, and read nothing."""
    tls = tls_client(files)
    with ExitStack() as held:
        for _ in range(count):
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            held.enter_context(plain)
            plain.settimeout(60)
            with suppress(OSError):
                plain.connect(("127.0.0.1", served.port))
                secured = held.enter_context(tls.wrap_socket(plain))
                secured.sendall(said)
        yield


@contextmanager
def repeated(step: object) -> Iterator[None]:
    """Repeat a step in a separate thread until the end."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            step()  # type: ignore[operator]

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def answers(served: Served, name: str | PartyFiles = "h2") -> list[str]:
    """Ask several times; return the codes, empty for an answer."""
    return [code(lambda: served.client(name, seconds=20).secret(1)) for _ in range(REQUESTS)]


def post(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def asking(epoch: int) -> bytes:
    return post(encode(Message({"ask": "secret", "study": STUDY, "epoch": epoch})))


# Strangers, who have no certificate of the study


@pytest.mark.parametrize("addresses", [1, 40])
@pytest.mark.parametrize("said", [b"", b"\x16", hello()], ids=["silent", "one byte", "half-open TLS"])
def test_connections_without_a_handshake_do_not_block_parties(said: bytes, addresses: int, served: Served) -> None:
    with strangers(served.port, said, addresses=addresses):
        assert answers(served) == [""] * REQUESTS


def test_a_very_slow_handshake_does_not_block_parties(served: Served) -> None:
    first = hello()
    with strangers(served.port) as opened:
        position = 0

        def drip() -> None:
            nonlocal position
            for one in opened:
                with suppress(OSError):
                    one.sendall(first[position : position + 1])
            position += 1
            time.sleep(0.5)

        with repeated(drip):
            assert answers(served) == [""] * REQUESTS


def test_strangers_that_reconnect_at_once_do_not_block_parties(served: Served) -> None:
    first = hello()
    with strangers(served.port, first, addresses=10) as opened:

        def again() -> None:
            for number, one in enumerate(opened):
                one.setblocking(False)
                with suppress(BlockingIOError):
                    try:
                        gone = not one.recv(1 << 16)
                    except ConnectionError:
                        gone = True
                    if gone:
                        one.close()
                        opened[number] = connected(served.port, f"127.0.1.{1 + number % 10}")
                        with suppress(OSError):
                            opened[number].sendall(first)
            time.sleep(0.01)

        with repeated(again):
            assert answers(served) == [""] * REQUESTS
        for one in opened:
            one.close()


def test_strangers_take_no_threads_and_a_bounded_number_of_descriptors(served: Served) -> None:
    threads, files, count = threading.active_count(), open_files(), 300
    with strangers(served.port, hello(), addresses=2, count=count):
        assert answers(served) == [""] * REQUESTS
        assert threading.active_count() - threads <= FEW_THREADS
        assert open_files() - files - count <= 150  # of each address only so many are kept


@pytest.mark.parametrize("limit", [64, 100])
def test_a_service_without_descriptors_left_stays_and_answers(limit: int, tmp_path: Path) -> None:
    made = prepared(tmp_path)
    program = f"""
import resource, sys
from pathlib import Path
from tests.secure_aggregation.authority import STUDY, lock
from wardround.secure_aggregation.keys.key_log import KeyLog
from wardround.secure_aggregation.keys.peers import PartyFiles
from wardround.secure_aggregation.keys.key_service import KeyRequestHandler, KeyService
from wardround.secure_aggregation.keys.service_state import Epochs
folder = Path({str(tmp_path / "keys")!r})
files = PartyFiles(folder, folder / "own.key", folder / "own.crt", folder / "root.pem")
epochs = Epochs.open(files.epochs, lock(), study=STUDY)
handler = KeyRequestHandler(epochs, KeyLog(files.log), study=STUDY, sites={SITES!r})
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
with KeyService(handler, files, host="localhost", port=0) as running:
    print(running.port, flush=True)
    sys.stdin.read()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stdin and running.stdout
        try:
            made.port = int(running.stdout.readline())
            with strangers(made.port, addresses=20, count=200):
                assert answers(made) == [""] * REQUESTS
            with parties(made, made.parties["h1"], b"", count=200):
                assert answers(made) == [""] * REQUESTS
            assert running.poll() is None
        finally:
            running.stdin.close()
            assert running.wait(60) == 0


def test_old_tls_with_its_renegotiation_is_refused(served: Served) -> None:
    old = tls_client(served.parties["h1"])
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError), connected(served.port) as plain, old.wrap_socket(plain) as secured:
        secured.sendall(asking(1))
        assert not secured.recv(100)
        raise AssertionError("it was heard")


def test_strangers_write_a_bounded_log(served: Served) -> None:
    for _ in range(3):
        for _ in range(5):
            with connected(served.port) as one:
                one.sendall(b"a name that must not be noted\r\n")
                with suppress(ConnectionError):
                    one.recv(100)
        time.sleep(1.2)
    assert eventually(lambda: bool(served.log))
    assert [(line.who, line.outcome) for line in served.log] == [("", "no-certificate")]
    assert b"must not be noted" not in served.parties["keys"].log.read_bytes()


# Parties of the study


@pytest.mark.parametrize("said", [b"", b"POST / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 4096\r\n\r\n"])
@pytest.mark.parametrize("name", ["h1", "coordinator"])
def test_a_party_that_does_not_finish_its_request_does_not_block_others(name: str, said: bytes, served: Served) -> None:
    with parties(served, served.parties[name], said):
        assert answers(served) == [""] * REQUESTS


def test_a_party_that_does_not_read_its_answer_does_not_block_others(served: Served) -> None:
    served.epochs.rotate(lambda _: b"SECRET" * 700_000)
    with parties(served, served.parties["h1"], asking(2)):
        assert answers(served) == [""] * REQUESTS


def test_forged_certificates_with_a_sites_name_do_not_block_the_site(served: Served) -> None:
    assert answers(served) == [""] * REQUESTS  # from now on its own certificate is known
    with parties(served, served.party("h2", 6), b""):  # made by whoever holds the authority
        assert answers(served) == [""] * REQUESTS


def test_certificates_with_unknown_names_do_not_block_parties(served: Served) -> None:
    with ExitStack() as held:
        for number in range(8):
            held.enter_context(parties(served, served.party(f"h{number + 10}", 6), b"", count=10))
        assert answers(served) == [""] * REQUESTS


def test_a_party_that_asks_without_end_does_not_fill_the_log(served: Served) -> None:
    codes = [code(lambda: served.client("coordinator").secret(1)) for _ in range(150)]
    assert set(codes) == {"not-a-site", "busy"}
    assert len(served.log) < 100
    assert answers(served) == [""] * REQUESTS


def test_a_request_with_endless_headers_is_cut_off(served: Served) -> None:
    tls = tls_client(served.parties["h1"])
    with connected(served.port) as plain, tls.wrap_socket(plain) as secured:
        head = b"POST / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 60_000) for n in range(50))
        body = encode(Message({"ask": "parameters", "study": STUDY}))
        with suppress(OSError):
            secured.sendall(head + post(body).split(b"\r\n", 1)[1])
        found = b""
        with suppress(OSError):
            found = secured.recv(100)
    assert b" 200 " not in found
    assert served.log == []


# The end


def test_the_service_closes_with_connections_of_every_kind_open(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    threads, files = threading.active_count(), open_files()
    with ExitStack() as held:
        with service(made) as running:
            made.port = running.port
            for said in (b"", hello()):
                held.enter_context(strangers(made.port, said, count=5))
            for said in (b"", asking(1)):
                held.enter_context(parties(made, made.parties["h1"], said, count=3))
            assert answers(made) == [""] * REQUESTS
        assert threading.active_count() == threads
    assert open_files() == files


# States that are put back


def test_a_restored_state_does_not_forget_a_revocation(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    vault, log = made.parties["keys"].epochs, KeyLog(made.parties["keys"].log)
    backup = vault.read_bytes()
    made.epochs.revoke("h1", new)
    log.write("revoke h1", "done", epoch=2)  # as `wardround keys revoke` does
    vault.write_bytes(backup)
    made.epochs = Epochs.open(vault, lock(), study=STUDY)
    with pytest.raises(KeyMaterialError, match=r"epochs\.vault is older than keys\.jsonl"), service(made) as running:
        made.port = running.port
        assert code(lambda: made.client("h1").secret(1)) == "revoked"


def test_a_state_restored_under_a_running_service_yields_no_key(served: Served) -> None:
    vault = served.parties["keys"].epochs
    backup = vault.read_bytes()
    served.epochs.revoke("h1", new)
    assert code(lambda: served.client("h1").secret(2)) == "revoked"
    vault.write_bytes(backup)
    assert code(lambda: served.client("h1").secret(1)) == "KeyMaterialError"


def test_a_restored_state_does_not_forget_pinned_certificates(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    vault = made.parties["keys"].epochs
    backup = vault.read_bytes()
    with service(made) as running:
        made.port = running.port
        made.client("h1").secret(1)
    vault.write_bytes(backup)
    made.epochs = Epochs.open(vault, lock(), study=STUDY)
    forged = made.party("h1", 6)
    with pytest.raises(KeyMaterialError, match=r"epochs\.vault is older than keys\.jsonl"), service(made) as running:
        made.port = running.port
        assert code(lambda: made.client(forged).secret(1)) == "certificate"


def test_an_old_copy_that_is_sent_again_does_not_bring_an_epoch_back(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    keys = SiteKeys(made.parties["h1"], study=STUDY, lock=lock(PASSPHRASE))
    public = rsa_key(3).public_key()
    first = SealedCopy.make(made.epochs.current(), study=STUDY, site="h1", oldest=1, public=public)
    keys.load_copy(first, "h1")
    made.epochs.revoke("h2", new)
    keys.load_copy(SealedCopy.make(made.epochs.current(), study=STUDY, site="h1", oldest=2, public=public), "h1")
    with pytest.raises(KeyMaterialError, match="epoch 2 is here already; the copy of epoch 1 is older"):
        keys.load_copy(first, "h1")
    assert code(lambda: keys.secret(1)) == "epoch"


def test_a_certificate_forged_before_a_revocation_is_not_admitted_with_the_site(served: Served) -> None:
    forged = served.party("h1", 6)
    served.client("h1").secret(1)
    assert code(lambda: served.client(forged).secret(1)) == "certificate"
    served.epochs.revoke("h1", new)
    served.epochs.admit("h1")  # which takes the revocation back, and nothing else
    assert code(lambda: served.client(forged).secret(2)) == "certificate"
    assert served.client("h1").secret(2).epoch == 2
