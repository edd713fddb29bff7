"""FLARE's streams, freed as soon as their content is delivered.

FLARE sends a message as a stream, and the streams of answers are reliable: a piece that is not acknowledged is sent
again. To acknowledge it again, the receiving end keeps each finished stream for 65 seconds. FLARE 2.9 also keeps the
whole answer and a timer, which is a thread: a coordinator would hold the answers of every round of the last minute, and
thousands of threads if rounds are short. At the sending end a stream and its future refer to each other, so its buffer
of a megabyte stays until Python collects such cycles, which a large process rarely does.

Here an answer belongs to the request that waits for it. The newest few finished streams of a party are kept, without
their bytes and without a timer. A repeated piece of an older stream begins a stream that no request waits for; it is
discarded. A sent stream drops its future.
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
    """An incoming stream; the newest few finished ones of a party are kept."""

    _finished: ClassVar[dict[str, deque[RxTask]]] = {}  # by party, oldest first
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def install(cls) -> None:
        """Make FLARE use this class for every incoming stream of this process."""
        byte_receiver.RxTask = cls

    def _schedule_remove_task(self, ttl: float | None = None) -> None:
        """Remove old streams; FLARE calls this when the stream is finished or has failed."""
        if self.failed:  # rare; pieces under way must find it for as long as FLARE says
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
        message: Message,
        secure: bool = False,
        optional: bool = False,
        reliable: bool | None = None,
    ) -> StreamFuture:
        """Send a message as a stream; return a future that is done when it is sent."""
        future = super().send_blob(channel, topic, target, message, secure, optional, reliable)
        future.add_done_callback(_drop_stream, future)
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


def _drop_stream(sent: StreamFuture) -> None:
    sent.task_handle = None
