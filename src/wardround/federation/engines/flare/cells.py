"""Connections over FLARE's cells: one port at the coordinator, mutual TLS, nothing else listens.

Only FLARE's message layer runs, not its server: no job can be submitted, there is no administrator, and no log can be
fetched. A cell accepts a message only if it is addressed to this cell, comes from a known party whose name is in the
certificate of the connection, and does not make FLARE build objects.

This module also frees FLARE's streams as soon as their content is delivered. FLARE sends a message as a stream, and the
streams of answers are reliable: a piece that is not acknowledged is sent again. To acknowledge it again, the receiving
end keeps each finished stream for 65 seconds. FLARE 2.9 also keeps the whole answer and a timer, which is a thread: a
coordinator would hold the answers of all rounds of the last minute, and thousands of threads if rounds are short. At
the sending end a stream and its future refer to each other, so its buffer of a megabyte stays until Python collects
such cycles, which a large process rarely does.

Here an answer belongs to the request that waits for it. The newest few finished streams of a party are kept, without
their bytes and without a timer. A repeated piece of an older stream starts a stream that no request waits for, and that
stream is discarded. A sent stream drops its future.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar

from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey, MessagePropKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.comm_config import CommConfigurator
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.fuel.f3.streaming import byte_receiver
from nvflare.fuel.f3.streaming.byte_receiver import RxTask
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey
from nvflare.fuel.f3.streaming.stream_types import StreamFuture

from wardround.errors import FederationError, MessageError
from wardround.federation.engines.flare.requests import COORDINATOR, Envelope, FlareParty
from wardround.federation.federation import SiteId

__all__ = ["LARGEST_BODY", "Connection", "ReceivedStream", "Signal", "StreamingCell", "open_connection"]

_log = logging.getLogger(__name__)
LARGEST_BODY = 512_000_000  # bytes
_LARGEST_FRAME = 16_000_000  # bytes; FLARE sends a large message in pieces of a million
_SECONDS_TO_LISTEN = 20.0
_CHANNEL = "wardround"
_HEADER, _SIGNATURE = "wardround-header", "wardround-signature"
_LOOPBACK = ("localhost", "127.0.0.1")
_ENCODINGS = (MessageHeaderKey.PAYLOAD_ENCODING, StreamHeaderKey.PAYLOAD_ENCODING)
_CODES = {
    ReturnCode.TARGET_UNREACHABLE: "unreachable",
    ReturnCode.COMM_ERROR: "unreachable",
    ReturnCode.MSG_TOO_BIG: "oversized",
}
_KEPT = 8  # finished streams of each party; a site answers one request at a time


class Connection:
    """One party's cell, over which envelopes travel."""

    def __init__(self, cell: Cell, peers: Sequence[str], *, largest: int) -> None:
        self._cell = cell
        self._largest = largest
        self._name = cell.get_fqcn()
        self._peers = frozenset(peers)
        cell.core_cell.add_incoming_filter(channel="*", topic="*", cb=self._refusal)

    def send(
        self, site: SiteId, topic: str, envelope: Envelope, *, seconds: float, stop: Signal | None = None
    ) -> Envelope:
        """Return the reply to an envelope.

        Without a reply, raise a `MessageError` with the code deadline, unreachable, oversized or transport.
        """
        if len(envelope.body) > self._largest:
            raise MessageError("oversized", f"a message has at most {self._largest:,} bytes")
        request = CellMessage({_HEADER: envelope.header, _SIGNATURE: envelope.signature}, envelope.body)
        started = time.monotonic()
        try:
            reply = self._cell.send_request(
                channel=_CHANNEL,
                topic=topic,
                target=site,
                request=request,
                timeout=seconds,
                optional=True,
                abort_signal=stop,
            )
        except Exception as error:  # FLARE has no class of its own for what its drivers raise
            _log.warning("site=%s topic=%s cannot be sent: %s", site, topic, type(error).__name__)
            raise MessageError("transport", "the message cannot be sent") from None
        code = reply.get_header(MessageHeaderKey.RETURN_CODE)
        if code != ReturnCode.OK:
            raise MessageError(_code_of(code, time.monotonic() - started, seconds), "no reply came")
        return _envelope(reply)

    def answer_with(self, topic: str, answer: Callable[[Envelope], Envelope]) -> None:
        """Answer every envelope on a topic with `answer`, which runs in a thread of FLARE and must not raise."""

        def callback(request: CellMessage) -> CellMessage:
            try:
                reply = answer(_envelope(request))
            except Exception as error:
                # FLARE would log the text, which might quote a note.
                _log.error("topic=%s cannot be answered: %s", topic, type(error).__name__)
                return make_reply(ReturnCode.PROCESS_EXCEPTION)
            message = make_reply(ReturnCode.OK, "", reply.body)
            message.add_headers({_HEADER: reply.header, _SIGNATURE: reply.signature})
            return message

        self._cell.register_request_cb(channel=_CHANNEL, topic=topic, cb=callback)

    def is_connected(self, site: SiteId) -> bool:
        """Return whether the site is connected, as far as this end knows."""
        return bool(self._cell.core_cell.is_cell_connected(site))

    def close(self) -> None:
        """Close the cell and end its threads."""
        self._cell.stop()

    def _refusal(self, message: CellMessage) -> CellMessage | None:
        """Return a refusal, or None to accept a message."""
        origin = message.get_header(MessageHeaderKey.ORIGIN)
        endpoint = message.get_prop(MessagePropKey.ENDPOINT)
        known = origin in self._peers and endpoint is not None and endpoint.name == origin
        mine = message.get_header(MessageHeaderKey.DESTINATION) == self._name
        plain = all(message.get_header(key) != Encoding.FOBS for key in _ENCODINGS)
        if known and mine and plain:
            return None
        _log.warning("a message was refused: known=%s mine=%s plain=%s", known, mine, plain)
        return make_reply(ReturnCode.UNAUTHENTICATED)


def open_connection(party: FlareParty, *, largest: int = LARGEST_BODY) -> Connection:
    """Open a party's cell: the coordinator listens; a site connects, and reconnects whenever it must."""
    _configure(largest, parties=len(party.sites))
    coordinator = party.name == COORDINATOR
    host = _listening_host(party) if coordinator else party.host
    url = f"grpc://{host}:{party.port}"
    end = "server" if coordinator else "client"
    ReceivedStream.install()
    cell = StreamingCell(
        fqcn=FQCN.ROOT_SERVER if coordinator else party.name,
        root_url=[url] if coordinator else url,
        secure=True,
        credentials={
            "ca_cert": str(party.root),
            f"{end}_cert": str(party.certificate),
            f"{end}_key": str(party.key),
            "connection_security": "mtls",
        },
        create_internal_listener=False,
        auth_identity=party.name,
        auth_identity_map={FQCN.ROOT_SERVER: COORDINATOR},
    )
    connection = Connection(cell, party.sites if coordinator else [FQCN.ROOT_SERVER], largest=largest)
    cell.start()
    if coordinator:
        _wait_until_listening(host, party.port)
    return connection


def _configure(largest: int, *, parties: int) -> None:
    """Set the options that FLARE would read from its file `comm_config.json`, once for the process."""
    options = [
        ("grpc.max_send_message_length", _LARGEST_FRAME),
        ("grpc.max_receive_message_length", _LARGEST_FRAME),
        # FLARE notices a connection that was closed, but not one that went silent (a firewall, a cut cable).
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.ping_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]
    CommConfigurator._configuration = {
        "streaming_max_blob_size": largest,
        "allow_adhoc_conns": False,  # sites do not connect to one another
        # A connection occupies a thread while it is open; twice as many, for sites that reconnect.
        "grpc": {"max_workers": 2 * parties + 20, "options": options},
    }
    CommConfigurator._config_loaded = True


def _listening_host(party: FlareParty) -> str:
    """Return where the coordinator listens; raise if the port is taken: FLARE would retry for ever or share it."""
    host = "127.0.0.1" if party.host in _LOOPBACK else "0.0.0.0"  # noqa: S104 - sites come from outside
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, party.port))
        except OSError as error:
            raise FederationError(
                f"port {party.port} cannot be listened on ({error.strerror}); is another coordinator running?"
            ) from None
    return host


def _wait_until_listening(host: str, port: int) -> None:
    """Wait until the port is open: FLARE listens in a thread, and a cell that is closed before that never ends."""
    end = time.monotonic() + _SECONDS_TO_LISTEN
    while time.monotonic() < end:
        try:
            socket.create_connection((host, port), timeout=1.0).close()
            return
        except OSError:
            time.sleep(0.02)
    raise FederationError(f"port {port} cannot be listened on; the kit's log says why")


def _code_of(code: str, spent: float, seconds: float) -> str:
    if code == ReturnCode.TIMEOUT:
        # An early timeout is a reply that began and was refused, for its size or because the connection broke.
        return "deadline" if spent >= 0.9 * seconds else "transport"
    return _CODES.get(code, "transport")


def _envelope(message: CellMessage) -> Envelope:
    header, signature = message.get_header(_HEADER, b""), message.get_header(_SIGNATURE, b"")
    if not isinstance(header, bytes) or not isinstance(signature, bytes):
        return Envelope(b"", b"")
    return Envelope(header, signature, bytes(message.payload or b""))


class ReceivedStream(RxTask):  # type: ignore[misc] # FLARE has no types
    """An incoming stream; the newest few finished ones of a party are kept."""

    _finished: ClassVar[dict[str, deque[RxTask]]] = {}  # by party, oldest first
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def install(cls) -> None:
        """Make FLARE use this class for every incoming stream of this process."""
        byte_receiver.RxTask = cls

    def _schedule_remove_task(self, ttl: float | None = None) -> None:
        """Remove old streams; FLARE calls this when the stream is finished or has failed."""
        if self.failed:  # rare; pieces in transit must still find it for as long as FLARE says
            super()._schedule_remove_task(ttl)
            return
        with self._lock:
            finished = self._finished.setdefault(self.origin, deque())
            finished.append(self)
            oldest = finished.popleft() if len(finished) > _KEPT else None
        if oldest is not None:
            oldest._remove_task()


class StreamingCell(Cell):  # type: ignore[misc] # FLARE has no types
    """A cell that keeps nothing of a delivered message."""

    def send_blob(
        self,
        channel: str,
        topic: str,
        target: str,
        message: CellMessage,
        secure: bool = False,
        optional: bool = False,
        reliable: bool | None = None,
    ) -> StreamFuture:
        """Send a message as a stream; return a future that is done when it is sent."""
        future = super().send_blob(channel, topic, target, message, secure, optional, reliable)
        future.add_done_callback(setattr, future, "task_handle", None)  # breaks the cycle of stream and future
        return future

    def _process_reply(self, future: StreamFuture) -> None:
        """Wrap the future of an answer; FLARE calls this when the answer begins to arrive."""
        super()._process_reply(_Answer(future))


class _Answer(StreamFuture):  # type: ignore[misc] # FLARE has no types
    """The future of an answer, which removes the bytes from the future that the stream keeps."""

    def __init__(self, stream: StreamFuture) -> None:
        super().__init__(stream.get_stream_id(), stream.get_headers())
        self._stream = stream
        stream.add_done_callback(self._take)

    def get_progress(self) -> int:
        """Return how many bytes have arrived."""
        return int(self._stream.get_progress())

    def _take(self) -> None:
        if self._stream.error is not None:
            self.set_exception(self._stream.error)
            return
        answer, self._stream.value = self._stream.value, None
        self.set_result(answer)
