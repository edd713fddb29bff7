"""A site's worker: it answers encoded requests, usually in its own process.

`RequestHandler` decodes a request, does the step, records the answer and encodes it. `WorkerProcess` runs a worker in
another process, so that its death cannot stop the site's engine.

Parent and child exchange frames over the child's standard input and output:

    4 bytes  length of the head, little-endian
    8 bytes  length of the body, little-endian
    head     JSON: {"step": …, "round": …} one way, {"code": …} the other way; an empty code means success
    body     an encoded message

The child keeps its real output for frames and redirects everything it prints to standard error. Only the code of an
error is sent. The child ends when its input ends, so a killed parent leaves no process behind.
"""

from __future__ import annotations

import json
import logging
import math
import os
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import IO, Any, NamedTuple, Protocol

from wardround.errors import MessageError
from wardround.federation.federation import code_of, safe_code
from wardround.federation.message import Data, Message, decode, encode
from wardround.parsing import is_integer, parse_json

__all__ = [
    "BytesWorker",
    "Refuse",
    "RequestHandler",
    "Send",
    "SiteWorker",
    "WorkerProcess",
    "decode_answer",
    "round_of",
    "serve_worker",
]

Send = Callable[[Message, str, int], bytes]  # answer, step, round: writes the record, returns the bytes to send
Refuse = Callable[[str, str, int], None]  # code, step, round: writes the record of a refusal

_WORKED = "worked"  # a blob of every answer: how long the site worked
_SECONDS = struct.Struct("<d")  # of fixed length, so that the size of an answer does not depend on the time

_log = logging.getLogger(__name__)
_LENGTHS = struct.Struct("<IQ")
_LARGEST_HEAD = 100_000  # bytes
_DIED = "worker-died"
_SECONDS_TO_CLOSE = 30.0  # saving a site's state takes time
_SECONDS_TO_FINISH = 1.0  # for an answer that is nearly ready


class BytesWorker(Protocol):
    """Answers encoded messages, so that it can write the ledger before the answer leaves."""

    def answer_bytes(self, step: str, round_number: int, data: Data) -> bytes:
        """Do the step; an exception makes this site absent, and only its code leaves."""

    def close(self) -> None:
        """Save what must last."""


class SiteWorker(Protocol):
    """A site that answers steps and can save its state."""

    def answer(self, step: str, message: Message) -> Message:
        """Do the step; an exception makes this site absent, and only its code leaves."""

    def close(self) -> None:
        """Save what must last; the worker is not asked again, but another one of the same site may be opened."""


class RequestHandler:
    """Answers encoded requests with a site's worker; without `send`, answers are not recorded in a ledger."""

    def __init__(self, worker: SiteWorker, send: Send | None = None, refuse: Refuse | None = None) -> None:
        self._worker = worker
        self._send = send or (lambda answer, step, round_number: encode(answer))
        self._refuse = refuse

    def answer_bytes(self, step: str, round_number: int, data: Data) -> bytes:
        """Do the step; the answer, with the seconds it took, is recorded before it is returned."""
        try:
            question, started = decode(data), perf_counter()
            answer = self._worker.answer(step, question)
        except Exception as error:
            if self._refuse is not None:
                self._refuse(safe_code(code_of(error)), step, round_number)
            raise
        seconds = _SECONDS.pack(perf_counter() - started)
        return self._send(replace(answer, blobs={**answer.blobs, _WORKED: seconds}), step, round_number)

    def close(self) -> None:
        """Close the worker."""
        self._worker.close()


def decode_answer(data: bytes) -> tuple[Message, float]:
    """Return the worker's answer and the seconds it worked; 0 without a `RequestHandler`."""
    answer = decode(data)
    blobs = dict(answer.blobs)
    packed = blobs.pop(_WORKED, None)
    if packed is None:
        return answer, 0.0
    seconds = _SECONDS.unpack(packed)[0] if len(packed) == _SECONDS.size else math.nan
    if not 0 <= seconds < math.inf:
        raise MessageError("value", "the seconds that a site worked must be zero or more")
    return replace(answer, blobs=blobs), seconds


class _Frame(NamedTuple):
    head: dict[str, Any]
    body: bytes


def round_of(message: Message) -> int:
    """Return the round that a message names; 0 if it names none."""
    found = message.values.get("round")
    return found if is_integer(found) else 0


class WorkerProcess:
    """The parent's end: starts `command` at the first request, and again after it has died.

    `command` runs a program that calls `serve_worker`. Its standard error goes to `errors`; None is the parent's own.
    It inherits the file descriptors that `descriptors` returns at each start. Several threads may ask; they are
    answered one after the other.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        errors: int | None = None,
        descriptors: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self._command = tuple(command)
        self._errors = errors
        self._descriptors = descriptors
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def answer(self, step: str, message: Message) -> Message:
        """Have the child do the step, as a `SiteWorker`."""
        return decode(self.answer_bytes(step, round_of(message), encode(message)))

    def answer_bytes(self, step: str, round_number: int, data: Data) -> bytes:
        """Have the child do the step; raise a `MessageError` with its code, or `worker-died` if it died."""
        with self._lock:
            process = self._running()
            try:
                _write(process.stdin, {"step": step, "round": round_number}, data)
                frame = _read(process.stdout)
            except (OSError, MessageError):
                frame = None
            if frame is None:
                self._reap()
                raise MessageError(_DIED, "the site's worker ended in the middle of an answer")
        if frame.head.get("code") != "":
            raise MessageError(safe_code(frame.head.get("code")), "the site's worker could not do the step")
        return frame.body

    def close(self) -> None:
        """End the child's input, so that it saves its state; kill it if it is still answering."""
        if not self._lock.acquire(timeout=_SECONDS_TO_FINISH):
            self.kill()
            self._lock.acquire()
        try:
            if self._process is not None:
                _end(self._process)
            self._reap()
        finally:
            self._lock.release()

    def kill(self) -> None:
        """Kill the child at once, even while it answers; a later question starts another."""
        process = self._process
        if process is not None:
            process.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._reap()
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - the site's own command
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pass_fds=tuple(self._descriptors()),
            )
        return self._process

    def _reap(self) -> None:
        """Wait for the ended process and close its pipes."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close(process.stdin)
            _close(process.stdout)


def serve_worker(open_worker: Callable[[], BytesWorker]) -> None:
    """Answer frames until the input ends; the worker is opened at the first question.

    A failed step leaves the worker open; a worker that cannot be opened is tried again at the next question.
    """
    source, sink = _take_over_streams()
    frames = _Frames(source)
    worker: BytesWorker | None = None
    while (frame := frames.next()) is not None:
        try:
            worker = worker or open_worker()
            body = worker.answer_bytes(str(frame.head["step"]), int(frame.head["round"]), frame.body)
            head = {"code": ""}
        except Exception as error:  # any error here is an absence at the coordinator
            _log.warning("a step failed: %s", error_location(error))
            head, body = {"code": safe_code(code_of(error))}, b""
        frames.done()  # first: the parent may end the input as soon as it has the answer
        _write(sink, head, body)
    if worker is not None:
        worker.close()


class _Frames:
    """Reads the input ahead in a thread, so that its end is noticed during an answer."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._queue: SimpleQueue[_Frame | None] = SimpleQueue()
        self._busy = threading.Event()
        threading.Thread(target=self._read_all, daemon=True).start()

    def next(self) -> _Frame | None:
        return self._queue.get()

    def done(self) -> None:
        self._busy.clear()

    def _read_all(self) -> None:
        while (frame := _read(self._source)) is not None:
            self._busy.set()
            self._queue.put(frame)
        if self._busy.is_set():
            os._exit(1)  # the parent is gone, and a step may take hours
        self._queue.put(None)


def _take_over_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return the pipes to the parent, and redirect prints to standard error and input to nothing."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    return source, sink


def _write(stream: IO[bytes] | None, head: dict[str, Any], body: Data) -> None:
    assert stream is not None
    text = json.dumps(head).encode()
    stream.write(_LENGTHS.pack(len(text), len(body)) + text)
    stream.write(body)
    stream.flush()


def _read(stream: IO[bytes] | None) -> _Frame | None:
    """Return the next frame; None at the end of the stream, also within a frame."""
    assert stream is not None
    start = stream.read(_LENGTHS.size)
    if len(start) < _LENGTHS.size:
        return None
    head_length, body_length = _LENGTHS.unpack(start)
    if head_length > _LARGEST_HEAD:
        raise MessageError("frame", "the other end does not write frames")
    text, body = stream.read(head_length), stream.read(body_length)
    if len(text) < head_length or len(body) < body_length:
        return None
    return _Frame(_head(text), body)


def _head(text: bytes) -> dict[str, Any]:
    try:
        head = parse_json(text)
    except ValueError:
        head = None
    if not isinstance(head, dict):
        raise MessageError("frame", "the other end does not write frames")
    return head


def _end(process: subprocess.Popen[bytes]) -> None:
    _close(process.stdin)
    try:
        process.wait(_SECONDS_TO_CLOSE)
    except subprocess.TimeoutExpired:
        _log.warning("the worker did not end within %g seconds and is killed", _SECONDS_TO_CLOSE)


def _close(stream: IO[bytes] | None) -> None:
    try:
        if stream is not None:
            stream.close()
    except OSError:
        pass  # unwritten data has no reader any more


def error_location(error: Exception) -> str:
    """Return the code or class of an error and its place; its text is withheld because it might quote a note."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{safe_code(code_of(error))} at {Path(frame.filename).name}:{frame.lineno}"
