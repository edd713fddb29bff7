"""FLARE's streams, freed as soon as what they carried was delivered.

FLARE carries a message as a stream, and the streams of answers are reliable: a piece that is not acknowledged is sent
again. To acknowledge it again, the receiving end keeps each finished stream for 65 seconds. FLARE 2.9 keeps the whole
answer with it, and a timer, which is a thread: a coordinator would hold the answers of every round of the last minute,
and thousands of threads where rounds are short. At the sending end a stream and its future refer to each other, so that
its buffer of a megabyte stays until Python looks for such cycles, which a large process rarely does.

Here an answer belongs to the request that waits for it. Of the finished streams of a party the newest few are kept,
without their bytes and without a timer. A piece of an older one that comes again begins a stream for which no request
waits; it is discarded. A stream that was sent lets go of its future.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import ClassVar

from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming import byte_receiver
from nvflare.fuel.f3.streaming.byte_receiver import RxTask
from nvflare.fuel.f3.streaming.stream_types import StreamFuture

__all__ = ["ReceivedStream", "StreamingCell"]

_KEPT = 8  # finished streams of each party; a site answers one request at a time


class ReceivedStream(RxTask):  # type: ignore[misc] # FLARE has no types
    """A stream that comes in; of those of a party that are finished, the newest few are kept."""

    _finished: ClassVar[dict[str, deque[RxTask]]] = {}  # by party, oldest first
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def install(cls) -> None:
        """Make FLARE receive every stream of this process as one of these."""
        byte_receiver.RxTask = cls

    def _schedule_remove_task(self, ttl: float | None = None) -> None:
        """Called by FLARE when the stream is finished, or has failed."""
        if self.failed:  # rare; pieces that are on their way must find it for as long as FLARE says
            super()._schedule_remove_task(ttl)
            return
        with self._lock:
            finished = self._finished.setdefault(self.origin, deque())
            finished.append(self)
            oldest = finished.popleft() if len(finished) > _KEPT else None
        if oldest is not None:
            oldest._remove_task()


class StreamingCell(Cell):  # type: ignore[misc] # FLARE has no types
    """A cell that keeps nothing of a message that was delivered."""

    def send_blob(
        self,
        channel: str,
        topic: str,
        target: str,
        message: Message,
        secure: bool = False,
        optional: bool = False,
        reliable: bool | None = None,
    ) -> StreamFuture:
        """Send a message as a stream; the future says when it is sent."""
        future = super().send_blob(channel, topic, target, message, secure, optional, reliable)
        future.add_done_callback(_let_go, future)
        return future

    def _process_reply(self, future: StreamFuture) -> None:
        """Called by FLARE when an answer begins to come in."""
        super()._process_reply(_Answer(future))


class _Answer(StreamFuture):  # type: ignore[misc] # FLARE has no types
    """The future of an answer; it takes the bytes away from the future that the stream keeps."""

    def __init__(self, stream: StreamFuture) -> None:
        super().__init__(stream.get_stream_id(), stream.get_headers())
        self._stream = stream
        stream.add_done_callback(self._take)

    def get_progress(self) -> int:
        """How many bytes have come in."""
        return int(self._stream.get_progress())

    def _take(self) -> None:
        if self._stream.error is not None:
            self.set_exception(self._stream.error)
            return
        answer, self._stream.value = self._stream.value, None
        self.set_result(answer)


def _let_go(sent: StreamFuture) -> None:
    sent.task_handle = None
