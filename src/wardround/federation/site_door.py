"""The site's side of the first door: bytes come in, a step is done, bytes go out, and what goes out is on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from wardround.federation.message import Message, decode, encode

__all__ = ["Send", "SiteDoor", "SiteWorker"]

Send = Callable[[Message, str, int], bytes]  # answer, step, round: writes the record, gives the bytes to send


class SiteWorker(Protocol):
    """A site at work: it answers steps and can lay its state aside."""

    def answer(self, step: str, message: Message) -> Message:
        """Do the step; any exception is this site's absence, and of it only a code leaves."""

    def close(self) -> None:
        """Put what must last on disk; the worker is not asked again, a later one of the same site may be opened."""


class SiteDoor:
    """A site's worker for every engine; without `send`, nothing is on record but what the engine counts."""

    def __init__(self, worker: SiteWorker, send: Send | None = None) -> None:
        self._worker = worker
        self._send = send or (lambda answer, step, round_number: encode(answer))

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        """Do the step; the answer is recorded before it is given out."""
        return self._send(self._worker.answer(step, decode(data)), step, round_number)

    def close(self) -> None:
        """Close the worker."""
        self._worker.close()
