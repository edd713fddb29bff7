"""The connections of a key service: one thread accepts, secures, reads, writes and ends them without blocking.

A connection is a stranger until its TLS handshake is done. A stranger uses a descriptor and some memory, but no thread.
The number of strangers is limited, in total and per address; above a limit, the stranger that is least likely to be a
party is displaced. After the handshake a connection counts only against the slots of its party. Each stage has a
deadline. Only complete requests go to the few worker threads, which use the vault and the log.
"""

from __future__ import annotations

import errno
import selectors
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from queue import Empty, SimpleQueue
from typing import Protocol

from wardround.errors import MessageError
from wardround.secure_aggregation.keys.limits import Limits, Party, PartySlots, Throttle
from wardround.secure_aggregation.keys.peers import Peer, peer_of

__all__ = ["ConnectionHandler", "Connections", "parse_request", "response"]

_LARGEST_HEAD = 8192  # bytes of a request line and its headers
_LARGEST_BODY = 4096  # bytes
_RECORD = 1 << 14  # bytes, of TLS
_RECORDS_AT_ONCE = 32  # written to one connection before the others are served
_HANDSHAKES_AT_ONCE = _ACCEPTED_AT_ONCE = 64
_BACKLOG = 1024  # connections queued by the system, which may have a lower limit
_SYSTEM_BUFFER = 1 << 16  # bytes that the system buffers each way for one connection
_TICK = 0.25  # seconds between two checks of deadlines
_WORKERS = 4
_ADDRESSES = 4  # remembered for each party
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ConnectionHandler(Protocol):
    """What the connections need from a key service."""

    def party(self, peer: Peer | None) -> Party:
        """Return whose slots a peer uses; must not block."""

    def answer(self, request: bytes, peer: Peer, address: str) -> bytes:
        """Return the answer to a request; called by worker threads."""

    def busy(self) -> bytes:
        """Return the answer to a party that asks too often."""

    def note(self, outcome: str, address: str, peer: Peer | None) -> None:
        """Write a line into the log; called by worker threads."""


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    address: str
    deadline: float
    from_known_address: bool  # whether a party connected from that address recently
    descriptor: int
    secured: ssl.SSLSocket | None = None  # from the first byte
    peer: Peer | None = None
    party: Party | None = None  # once the handshake is done
    received: bytearray = field(default_factory=bytearray)
    reply: memoryview | None = None  # the part that is not written yet


class Connections:
    """Serves connections in one thread from `start` to `close`."""

    def __init__(
        self, listener: socket.socket, tls: ssl.SSLContext, handler: ConnectionHandler, limits: Limits
    ) -> None:
        self._listener, self._tls, self._handler, self._limits = listener, tls, handler, limits
        self._most_strangers = limits.most_strangers
        self._slots = PartySlots(limits)
        self._notes = Throttle(limits.seconds_between_notes)
        self._strangers: dict[_Connection, None] = {}  # the oldest first
        self._strangers_per_address: Counter[str] = Counter()
        self._authenticated: set[_Connection] = set()
        self._known_addresses: dict[Party, deque[str]] = {}
        self._resume_accepting_at = 0.0  # when to accept again after descriptors ran out; 0 while accepting
        self._answered: SimpleQueue[tuple[_Connection, Future[bytes]]] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="key-connections", daemon=True)

    def start(self) -> None:
        """Start to listen."""
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # accepted connections inherit them
            self._listener.setsockopt(socket.SOL_SOCKET, option, _SYSTEM_BUFFER)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="key-answers")
        self._thread.start()

    def close(self) -> None:
        """End every connection; requests in progress are finished but not answered."""
        self._closing.set()
        self._wake()
        self._thread.join()
        self._workers.shutdown(wait=True, cancel_futures=True)
        for end in (self._waker, self._woken):
            end.close()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    self._serve([key for key, _ in self._selector.select(_TICK)])
                except Exception:  # the system lacks resources; abandoned connections end at their deadline
                    self._closing.wait(_TICK)
        finally:
            for connection in [*self._strangers, *self._authenticated]:
                self._end(connection)
            self._selector.close()
            self._listener.close()

    def _serve(self, ready: list[selectors.SelectorKey]) -> None:
        """Serve parties before strangers, and waiting strangers before new ones that could displace them."""
        connections = [key.data for key in ready if key.data is not None]
        for connection in connections:
            if connection.party is not None:
                self._step(connection)
        self._take_answers()
        handshakes = sorted((c for c in connections if c in self._strangers), key=self._suspicion)
        for connection in handshakes[:_HANDSHAKES_AT_ONCE]:
            self._step(connection)
        now = time.monotonic()
        for connection in [c for c in (*self._strangers, *self._authenticated) if c.deadline <= now]:
            self._end(connection)
        if self._resume_accepting_at and self._resume_accepting_at <= now:
            self._resume_accepting_at = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)
        if any(key.fileobj is self._listener for key in ready):
            self._accept()

    # Strangers

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, (address, *_) = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    continue  # the connection is gone already
                if not self._strangers:
                    # Otherwise the listener would report that it is ready again and again while no descriptor is free.
                    self._selector.unregister(self._listener)
                    self._resume_accepting_at = time.monotonic() + 2 * _TICK
                    return
                self._displace(self._strangers)
                continue
            self._receive(accepted, address)

    def _receive(self, accepted: socket.socket, address: str) -> None:
        """Accept a stranger; if there are too many, displace another."""
        if self._strangers_per_address[address] >= self._limits.strangers_per_address:
            self._displace(stranger for stranger in self._strangers if stranger.address == address)
        elif len(self._strangers) >= self._most_strangers:
            self._displace(self._strangers)
        accepted.setblocking(False)
        deadline = time.monotonic() + self._limits.handshake_seconds
        from_known_address = any(address in known for known in self._known_addresses.values())
        connection = _Connection(accepted, address, deadline, from_known_address, accepted.fileno())
        self._strangers[connection] = None
        self._strangers_per_address[address] += 1
        self._selector.register(connection.descriptor, selectors.EVENT_READ, connection)

    def _displace(self, among: Iterable[_Connection]) -> None:
        """End the connection that is least likely to be a party; the oldest among several."""
        self._end(max(among, key=self._suspicion))

    def _suspicion(self, stranger: _Connection) -> tuple[bool, int, bool]:
        """Rank strangers: highest are those from new addresses, then from addresses with many, then silent ones."""
        return not stranger.from_known_address, self._strangers_per_address[stranger.address], stranger.secured is None

    def _secure(self, connection: _Connection) -> None:
        """Continue the handshake; when it is done, take a slot of the party."""
        if connection.secured is None:
            connection.secured = self._tls.wrap_socket(
                connection.socket, server_side=True, do_handshake_on_connect=False
            )
            connection.socket = connection.secured
        connection.secured.do_handshake()
        try:
            connection.peer = peer_of(connection.secured.getpeercert(binary_form=True) or b"")
        except MessageError:
            connection.peer = None  # signed by the study's authority, but it names no party
        party = self._handler.party(connection.peer)
        if not self._slots.take(party):
            self._note("busy", connection)
            self._end(connection)
            return
        self._forget_stranger(connection)
        self._authenticated.add(connection)
        connection.party = party
        connection.deadline = time.monotonic() + self._limits.read_seconds
        if party.pinned:
            known = self._known_addresses.setdefault(party, deque(maxlen=_ADDRESSES))
            if connection.address not in known:
                known.append(connection.address)
        self._read(connection)

    def _forget_stranger(self, connection: _Connection) -> None:
        del self._strangers[connection]
        self._strangers_per_address[connection.address] -= 1
        if not self._strangers_per_address[connection.address]:
            del self._strangers_per_address[connection.address]

    # Parties

    def _step(self, connection: _Connection) -> None:
        """Serve a connection as far as possible without blocking."""
        try:
            if connection.party is None:
                self._secure(connection)
            elif connection.reply is None:
                self._read(connection)
            else:
                self._write(connection)
        except ssl.SSLWantReadError:
            self._await(connection, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._await(connection, selectors.EVENT_WRITE)
        except Exception:  # an error of one connection must not end the others
            self._end(connection)

    def _await(self, connection: _Connection, event: int) -> None:
        known = connection.descriptor in self._selector.get_map()
        (self._selector.modify if known else self._selector.register)(connection.descriptor, event, connection)

    def _read(self, connection: _Connection) -> None:
        assert connection.secured is not None and connection.party is not None
        request = None
        while request is None:
            data = connection.secured.recv(_RECORD)
            if not data:
                self._end(connection)
                return
            connection.received += data
            request = parse_request(connection.received)
        if isinstance(request, HTTPStatus):
            self._reply(connection, response(request))
        elif not self._slots.request(connection.party):
            self._note("busy", connection)
            self._reply(connection, response(HTTPStatus.OK, self._handler.busy()))
        else:
            self._selector.unregister(connection.descriptor)
            connection.deadline = float("inf")  # until the worker is done
            logs = connection.peer is None and self._notes.allows("")

            def hand_back(done: Future[bytes]) -> None:
                self._answered.put((connection, done))
                self._wake()

            self._workers.submit(self._answer, connection, request, logs).add_done_callback(hand_back)

    def _answer(self, connection: _Connection, request: bytes, logs: bool) -> bytes:
        """Return the response to a request, in a worker thread; it is logged before it is sent."""
        if connection.peer is not None:
            return response(HTTPStatus.OK, self._handler.answer(request, connection.peer, connection.address))
        if logs:
            self._handler.note("no-certificate", connection.address, None)
        return response(HTTPStatus.FORBIDDEN)

    def _wake(self) -> None:
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # it is awake already, or closed

    def _take_answers(self) -> None:
        try:
            self._woken.recv(_RECORD)
        except BlockingIOError:
            return
        while True:
            try:
                connection, done = self._answered.get_nowait()
            except Empty:
                return
            if done.cancelled() or done.exception() is not None:
                self._end(connection)
            else:
                self._reply(connection, done.result())

    def _reply(self, connection: _Connection, reply: bytes) -> None:
        connection.reply = memoryview(reply)
        connection.deadline = time.monotonic() + self._limits.write_seconds
        self._await(connection, selectors.EVENT_WRITE)

    def _write(self, connection: _Connection) -> None:
        assert connection.secured is not None and connection.reply is not None
        for _ in range(_RECORDS_AT_ONCE):
            sent = connection.secured.send(connection.reply[:_RECORD])
            connection.reply = connection.reply[sent:]
            if not connection.reply:
                self._end(connection)
                return

    def _end(self, connection: _Connection) -> None:
        if connection.descriptor in self._selector.get_map():
            self._selector.unregister(connection.descriptor)
        connection.socket.close()
        if connection in self._strangers:
            self._forget_stranger(connection)
            if connection.peer is None:
                self._note("no-certificate", connection)
        elif connection in self._authenticated and connection.party is not None:
            self._authenticated.remove(connection)
            self._slots.release(connection.party)

    def _note(self, outcome: str, connection: _Connection) -> None:
        """Log an outcome unless one was logged recently: strangers must not fill the log or block this thread."""
        subject = "" if connection.peer is None else self._handler.party(connection.peer).name
        if not self._closing.is_set() and self._notes.allows(subject):
            self._workers.submit(self._handler.note, outcome, connection.address, connection.peer)


def parse_request(received: bytes | bytearray) -> bytes | HTTPStatus | None:
    """Return the body of a complete POST, None if it is incomplete, or a status if it is refused."""
    head, end, body = bytes(received).partition(b"\r\n\r\n")
    if len(head) > _LARGEST_HEAD:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    if not end:
        return None
    first, *lines = head.split(b"\r\n")
    words = first.split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return HTTPStatus.BAD_REQUEST
    if words[0] != b"POST":
        return HTTPStatus.NOT_IMPLEMENTED
    fields = [line.partition(b":") for line in lines]
    lengths = [value.strip() for name, _, value in fields if name.lower() == b"content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 4 or int(lengths[0]) > _LARGEST_BODY:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    length = int(lengths[0])
    return body[:length] if len(body) >= length else None


def response(status: HTTPStatus, body: bytes = b"") -> bytes:
    """Return an HTTP response that closes the connection."""
    head = f"HTTP/1.0 {status.value} {status.phrase}\r\nContent-Type: application/octet-stream\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
