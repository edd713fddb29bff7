"""A worker: a process that keeps some chunks of a sealed sum. Ciphertexts come, sums go, and no key is ever here.

Parent and worker tell one another over pipes what is to be done, and put the blocks themselves on a buffer: memory that
both of them see.
"""

from __future__ import annotations

import mmap
import os
import signal
from dataclasses import dataclass

import numpy as np

from wardround.errors import MessageError
from wardround.federation.message import Array
from wardround.federation.worker_process import serve_worker
from wardround.parsing import parse_json
from wardround.process_hardening import forbid_core_dumps
from wardround.secure_aggregation.bfv import BfvParameters, BfvSum, Ciphertexts

__all__ = ["Stretches", "buffer_of"]


@dataclass(frozen=True, eq=False)
class _Chunk:
    """A running sum of as many blocks as lie on the buffer when the first are added."""

    parameters: BfvParameters
    buffer: Array
    sum: BfvSum

    def add(self, blocks: int) -> None:
        length = self.parameters.fresh.length
        self.sum.add(Ciphertexts(self.buffer[: blocks * length], np.full(blocks, length, np.int32)))

    def total(self) -> int:
        """Put the sum on the buffer; how many blocks it has."""
        total = self.sum.total()
        self.buffer[: len(total.data)] = total.data
        return len(total.lengths)


class Stretches:
    """Running sums, each known by a number; a `BytesWorker` to which that number comes in place of a round's."""

    def __init__(self) -> None:
        self._stretches: dict[int, _Chunk] = {}
        self._buffers: dict[str, Array] = {}

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        """`begin` a sum, `add` so many blocks from the buffer, put as many of the `total` on it, `forget` the sum."""
        if step == "begin":
            self._stretches[round_number] = self._begun(**parse_json(data))
        elif step == "add":
            self._stretch(round_number).add(int(data))
        elif step == "total":
            return b"%d" % self._stretch(round_number).total()
        elif step == "forget":
            self._stretches.pop(round_number, None)
        else:
            raise MessageError("step", "a lane does no such thing")
        return b""

    def close(self) -> None:
        """Nothing of a sum must last."""

    def _begun(self, packing: str, buffer: str) -> _Chunk:
        if buffer not in self._buffers:
            descriptor = os.open(buffer, os.O_RDWR)
            self._buffers = {buffer: buffer_of(descriptor)}
            os.close(descriptor)
        parameters = BfvParameters(packing)
        return _Chunk(parameters, self._buffers[buffer], BfvSum(parameters))

    def _stretch(self, number: int) -> _Chunk:
        if number not in self._stretches:
            raise MessageError("lost", "this sum was begun in a process that has ended since")
        return self._stretches[number]


def buffer_of(descriptor: int) -> Array:
    """An open file's bytes, the same for all who have it open."""
    return np.frombuffer(mmap.mmap(descriptor, 0), np.uint8)


def _main() -> None:
    # A terminal's Ctrl-C comes to every process of its group; this one ends when its parent ends or wants it to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve_worker(Stretches)


if __name__ == "__main__":
    forbid_core_dumps()
    _main()
