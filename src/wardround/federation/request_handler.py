"""The site's side of the first door: bytes come in, a step is done, bytes go out, and what goes out is on record."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Protocol

from wardround.errors import MessageError
from wardround.federation.federation import code_of, safe_code
from wardround.federation.message import Message, decode, encode

__all__ = ["Refuse", "RequestHandler", "Send", "SiteWorker", "heard"]

Send = Callable[[Message, str, int], bytes]  # answer, step, round: writes the record, gives the bytes to send
Refuse = Callable[[str, str, int], None]  # code, step, round: writes the record of a refusal

_WORKED = "worked"  # a blob of every answer: how long the site worked at it
_SECONDS = struct.Struct("<d")  # always as long, so that the bytes of an answer do not depend on how long it took


class SiteWorker(Protocol):
    """A site at work: it answers steps and can lay its state aside."""

    def answer(self, step: str, message: Message) -> Message:
        """Do the step; any exception is this site's absence, and of it only a code leaves."""

    def close(self) -> None:
        """Put what must last on disk; the worker is not asked again, a later one of the same site may be opened."""


class RequestHandler:
    """A site's worker for every engine; without `send`, nothing is on record but what the engine counts."""

    def __init__(self, worker: SiteWorker, send: Send | None = None, refuse: Refuse | None = None) -> None:
        self._worker = worker
        self._send = send or (lambda answer, step, round_number: encode(answer))
        self._refuse = refuse

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        """Do the step; the answer, with the seconds it took, is recorded before it is given out."""
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


def heard(data: bytes) -> tuple[Message, float]:
    """The answer as its worker gave it, and the seconds it worked; 0 where it came through no `SiteDoor`."""
    answer = decode(data)
    blobs = dict(answer.blobs)
    told = blobs.pop(_WORKED, None)
    if told is None:
        return answer, 0.0
    seconds = _SECONDS.unpack(told)[0] if len(told) == _SECONDS.size else math.nan
    if not 0 <= seconds < math.inf:
        raise MessageError("value", "the seconds of a site's work are a number from zero on")
    return replace(answer, blobs=blobs), seconds
