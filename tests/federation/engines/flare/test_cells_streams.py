from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from tests.processes import eventually

pytest.importorskip("nvflare", reason="install wardround[flare]")

from nvflare.fuel.f3.cellnet.cell import SimpleWaiter
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.stream_cell import StreamCell
from nvflare.fuel.f3.streaming import byte_receiver
from nvflare.fuel.f3.streaming.byte_streamer import ByteStreamer
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_CHANNEL,
    STREAM_DATA_TOPIC,
    StreamDataType,
    StreamHeaderKey,
)
from nvflare.fuel.f3.streaming.stream_types import StreamError, StreamFuture

from wardround.federation.engines.flare.cells import ReceivedStream, StreamingCell


class FakeCore:
    """Replaces FLARE's connections: keeps what is sent."""

    def __init__(self) -> None:
        self.my_info = SimpleNamespace(fqcn="server")
        self.callbacks: dict[str, Any] = {}
        self.sent: list[tuple[str, Message]] = []
        self.open = threading.Event()
        self.open.set()

    def register_request_cb(self, *, channel: str, topic: str, cb: Any) -> None:
        assert channel == STREAM_CHANNEL
        self.callbacks[topic] = cb

    def add_error_handler(self, channel: str, topic: str, handler: Any) -> None: ...

    def fire_and_forget(self, channel: str, topic: str, target: str, message: Message, **_: Any) -> dict[str, str]:
        self.open.wait()
        self.sent.append((topic, message))
        return {}

    def acknowledged(self) -> list[int]:
        """Return the streams of acknowledged pieces, in the order of acknowledgement."""
        return [message.get_header(StreamHeaderKey.STREAM_ID) for topic, message in self.sent if "ACK" in topic]


class Cell:
    """Return our cell over the replaced connections."""

    def __init__(self) -> None:
        self.core = FakeCore()
        self.cell = StreamingCell.__new__(StreamingCell)
        StreamCell.__init__(self.cell, self.core)
        self.cell.requests_dict, self.cell.logger = {}, logging.getLogger(__name__)
        self.cell.register_blob_cb("answers", "*", self.cell._process_reply)

    def waiting(self, request: str) -> SimpleWaiter:
        """Return a request that waits for its answer."""
        waiter = SimpleWaiter(request, "h1", None)
        self.cell.requests_dict[request] = waiter
        return waiter

    def receive(self, stream: int, body: bytes, *, origin: str = "h1", request: str = "", size: int = 0) -> None:
        """Return a reliable stream of one piece."""
        headers = {
            MessageHeaderKey.ORIGIN: origin,
            StreamHeaderKey.STREAM_ID: stream,
            StreamHeaderKey.STREAM_REQ_ID: request,
            StreamHeaderKey.CHANNEL: "answers",
            StreamHeaderKey.TOPIC: "any",
            StreamHeaderKey.SIZE: size or len(body),
            StreamHeaderKey.SEQUENCE: 0,
            StreamHeaderKey.DATA_TYPE: StreamDataType.FINAL,
            StreamHeaderKey.RELIABLE: True,
            StreamHeaderKey.RETRY_WAIT: 5.0,
            StreamHeaderKey.RETRY_TIMEOUT: 60.0,
        }
        self.core.callbacks[STREAM_DATA_TOPIC](Message(headers, body))


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.setattr(byte_receiver, "RxTask", ReceivedStream)
    monkeypatch.setattr(ReceivedStream, "rx_task_map", {})
    monkeypatch.setattr(ReceivedStream, "_finished", {})
    return Cell()


def kept(origin: str) -> list[int]:
    """Return the streams of a party that are kept."""
    return [stream for party, stream in ReceivedStream.rx_task_map if party == origin]


def timers() -> int:
    """Return the number of timers that were not cancelled."""
    return sum(isinstance(t, threading.Timer) and not t.finished.is_set() for t in threading.enumerate())


def test_an_answer_is_read_once_and_its_stream_keeps_no_bytes(cell: Cell) -> None:
    waiter = cell.waiting("r1")
    cell.receive(1, b"body", request="r1")
    assert waiter.in_receiving.wait(20)
    answer = waiter.receiving_future
    assert answer is not None and bytes(answer.result(20)) == b"body"
    assert answer.get_headers()[StreamHeaderKey.STREAM_REQ_ID] == "r1"
    assert answer.get_progress() == 4 and answer.exception() is None
    (stream,) = ReceivedStream.rx_task_map.values()
    assert stream.completed and stream.stream_future.done() and stream.stream_future.value is None
    assert not stream.chunks


def test_an_answer_that_nobody_waits_for_leaves_no_bytes(cell: Cell) -> None:
    cell.receive(1, b"body", request="given up")
    (stream,) = ReceivedStream.rx_task_map.values()
    assert eventually(stream.stream_future.done)
    assert eventually(lambda: stream.stream_future.value is None)


def test_a_failed_answer_raises_its_error(cell: Cell) -> None:
    waiter = cell.waiting("r1")
    before = timers()
    cell.receive(1, b"body", request="r1", size=5)
    assert waiter.in_receiving.wait(20)
    answer = waiter.receiving_future
    assert answer is not None and isinstance(answer.exception(20), StreamError)
    failed = ReceivedStream(2, "h1", cell.core, reliable=True)
    failed.stop(StreamError("broken"), notify=False)
    assert timers() == before + 1  # FLARE's own
    failed._remove_task()


def test_the_newest_streams_of_a_party_are_kept_without_a_timer(cell: Cell) -> None:
    before = timers()
    for number in range(30):
        cell.receive(number, b"body")
        cell.receive(number, b"body", origin="h2")
    assert kept("h1") == kept("h2") == list(range(22, 30))
    assert ReceivedStream._finished.keys() == {"h1", "h2"}
    assert all(isinstance(streams, deque) and len(streams) == 8 for streams in ReceivedStream._finished.values())
    assert timers() == before


def test_a_repeated_piece_is_acknowledged_again(cell: Cell) -> None:
    waiter = cell.waiting("r29")
    for number in range(30):
        cell.receive(number, b"body", request=f"r{number}")
    assert waiter.in_receiving.wait(20)
    answer = waiter.receiving_future
    assert eventually(lambda: len(cell.core.acknowledged()) >= 30)
    before = len(cell.core.acknowledged())
    for again in (29, 29, 3):  # the last is long forgotten, and received anew
        cell.receive(again, b"body", request=f"r{again}")
    assert cell.core.acknowledged()[before:].count(29) == 2
    assert eventually(lambda: 3 in cell.core.acknowledged()[before:])
    assert waiter.receiving_future is answer  # it was not answered twice
    assert len(kept("h1")) == 8


def sent(cell: Cell, *, reliable: bool) -> weakref.ref[Any]:
    """Return the stream of a message that was sent and, if it is reliable, acknowledged."""
    cell.core.open.clear()
    future: StreamFuture = cell.cell.send_blob("asks", "any", "h1", Message({}, b"body"), reliable=reliable)
    stream = weakref.ref(future.task_handle)
    cell.core.open.set()
    if reliable:
        assert eventually(lambda: bool(ByteStreamer.tx_task_map[future.get_stream_id()].stopping))
        acknowledgement = {
            MessageHeaderKey.ORIGIN: "h1",
            StreamHeaderKey.STREAM_ID: future.get_stream_id(),
            StreamHeaderKey.OFFSET: 4,
            StreamHeaderKey.SEQUENCE: 0,
        }
        cell.core.callbacks[STREAM_ACK_TOPIC](Message(acknowledgement))
    assert future.result(20) == 4
    return stream


@pytest.mark.parametrize("reliable", [False, True])
def test_a_stream_that_was_sent_is_freed_with_its_buffer(cell: Cell, reliable: bool) -> None:
    gc.disable()
    try:
        streams = [sent(cell, reliable=reliable) for _ in range(4)]
        # One may still be looked at by FLARE's thread that sends again.
        assert eventually(lambda: sum(stream() is not None for stream in streams) <= 1, 20)
    finally:
        gc.enable()


def test_every_incoming_stream_of_the_process_uses_this_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_receiver, "RxTask", byte_receiver.RxTask)
    ReceivedStream.install()
    assert byte_receiver.RxTask is ReceivedStream
