"""Answer encoded requests at a site: decode, do the step, record the answer, encode it."""

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

__all__ = ["Refuse", "RequestHandler", "Send", "SiteWorker", "decode_answer"]

Send = Callable[[Message, str, int], bytes]  # answer, step, round: writes the record, returns the bytes to send
Refuse = Callable[[str, str, int], None]  # code, step, round: writes the record of a refusal

_WORKED = "worked"  # a blob of every answer: how long the site worked
_SECONDS = struct.Struct("<d")  # of fixed length, so that the size of an answer does not depend on the time


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

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
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
