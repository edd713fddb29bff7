"""The key service: a role of its own, apart from the coordinator, that gives sealing keys to the sites of a study.

HTTP over mutual TLS; who asks is who its certificate names. One request is one connection: a POST whose body and whose
answer are messages of our codec.

    {"ask": "parameters", "study": …}              anybody in the study: what may be known of the current epoch
    {"ask": "secret", "study": …, "epoch": …}      sites only: the secret of that epoch

A refusal is a code. Each request is in the log, on disk, before it is answered. What was rotated, revoked or admitted
meanwhile counts from the next request on, for the vault is read at each; nothing else of a secret is in memory.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any

from wardround.errors import KeyMaterialError, MessageError, WardroundError
from wardround.federation.federation import SiteId, code_of
from wardround.federation.message import Message, decode, encode
from wardround.privacy.keys.log import KeyLog
from wardround.privacy.keys.peers import PartyFiles, Peer, peer_of, tls_server
from wardround.privacy.keys.state import Epochs

__all__ = ["COORDINATOR", "SERVICE", "KeyDesk", "KeyService"]

COORDINATOR = "coordinator"
SERVICE = "keys"  # whom the service's own certificate names

_LARGEST_REQUEST = 4096  # bytes
_SILENCE = 5.0  # seconds without a byte, after which a connection is ended
_LONGEST = 20.0  # seconds for all of it
_MOST_AT_ONCE = 64  # connections
_BETWEEN_STRANGERS = 1.0  # seconds; the log must not grow as fast as strangers can knock
_LOOPBACK = ("localhost", "127.0.0.1")


class KeyDesk:
    """Who gets what: the rules, without the network."""

    def __init__(self, epochs: Epochs, log: KeyLog, *, study: str, sites: Collection[SiteId]) -> None:
        self._epochs = epochs
        self._log = log
        self._study = study
        self._sites = frozenset(sites)
        self._stranger = float("-inf")  # when the last one was noted

    def answer(self, request: bytes, peer: Peer, address: str = "") -> bytes:
        """The answer to a request, or a code; in the log before it is given."""
        asked, epoch = "nothing", 0
        try:
            message = decode(request)
            asked, epoch = _asked(message)
            answer, outcome = self._answer(message, peer, asked, epoch), "given"
        except (WardroundError, OSError) as error:
            outcome = code_of(error)
            answer = Message({"code": outcome})
        try:
            self._log.write(asked, outcome, who=peer.name, certificate=peer.fingerprint, address=address, epoch=epoch)
        except KeyMaterialError:
            answer = Message({"code": "log"})
        return encode(answer)

    def note_stranger(self, address: str) -> None:
        """Note one who showed no certificate of the study, or not all there is to say; not more than one a second."""
        now = time.monotonic()
        if now - self._stranger >= _BETWEEN_STRANGERS:
            self._stranger = now
            self._log.write("nothing", "no-certificate", address=address)

    def _answer(self, message: Message, peer: Peer, asked: str, epoch: int) -> Message:
        if message.value("study", str) != self._study:
            raise MessageError("study", "is another one")
        if peer.name not in (*self._sites, COORDINATOR, SERVICE):
            raise MessageError("unknown", "the study has nobody of that name")
        if peer.name in self._epochs.state().revoked:
            raise MessageError("revoked", "the site was revoked")
        if asked == "parameters":
            return Message({"parameters": self._epochs.parameters().to_values()})
        if peer.name not in self._sites:
            raise MessageError("not-a-site", "secrets are for sites")
        return Message(blobs={"secret": self._epochs.give(peer, epoch).to_bytes()})


class KeyService:
    """The desk on the network, from `start` to `close`."""

    def __init__(self, desk: KeyDesk, files: PartyFiles, *, host: str, port: int) -> None:
        place = "127.0.0.1" if host in _LOOPBACK else "0.0.0.0"  # noqa: S104 - sites come from outside
        try:
            self._server = _Server((place, port), desk, tls_server(files))
        except OSError as error:
            raise KeyMaterialError(
                f"port {port} cannot be listened on ({error.strerror}); is another service running?"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The one that is listened on."""
        return int(self._server.server_address[1])

    def __enter__(self) -> KeyService:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Each connection in a thread of its own, TLS included: one that stalls keeps nobody else waiting."""

    daemon_threads = True
    request_queue_size = _MOST_AT_ONCE

    def __init__(self, place: tuple[str, int], desk: KeyDesk, tls: ssl.SSLContext) -> None:
        self.desk = desk
        self._tls = tls
        self._room = threading.BoundedSemaphore(_MOST_AT_ONCE)
        super().__init__(place, _Handler)

    def server_bind(self) -> None:
        """Without looking up this machine's name, as HTTP servers do, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", int(self.server_address[1])

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, where there is room for it."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Secure the connection, then hear what is asked."""
        request.settimeout(_SILENCE)
        try:
            with self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as secured:
                self._hear(secured, client_address)
        except OSError:  # gone, too slow, or cut off
            return

    def _hear(self, secured: ssl.SSLSocket, client_address: Any) -> None:
        end = threading.Timer(_LONGEST, _cut, args=(secured,))
        end.daemon = True
        end.start()
        try:
            secured.do_handshake()
            _Handler(secured, client_address, self)
        except ssl.SSLError:
            self.desk.note_stranger(client_address[0])
        finally:
            end.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing is printed: what went wrong with one connection is its own affair."""


class _Handler(BaseHTTPRequestHandler):
    """One request on one connection."""

    server: _Server
    connection: ssl.SSLSocket
    server_version, sys_version = "wardround", ""
    timeout = _SILENCE

    def do_POST(self) -> None:
        """Read the message and answer it."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= _LARGEST_REQUEST):
            self.send_error(413)
            return
        request = self.rfile.read(int(length))  # all of it first: what is left unread breaks the answer off
        try:
            peer = peer_of(self.connection.getpeercert(binary_form=True) or b"")
        except MessageError:
            self.server.desk.note_stranger(self.client_address[0])
            self.send_error(403)
            return
        body = self.server.desk.answer(request, peer, self.client_address[0])
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """The desk keeps the log."""


def _asked(message: Message) -> tuple[str, int]:
    asked = message.value("ask", str)
    if asked not in ("parameters", "secret"):
        raise MessageError("request", "nothing of that name can be asked")
    return asked, message.value("epoch", int) if asked == "secret" else 0


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
