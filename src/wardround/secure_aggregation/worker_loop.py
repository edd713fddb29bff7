"""A worker process that holds some chunks of a sum of ciphertexts; it never has a key.

Requests travel over pipes, and blocks through a buffer in shared memory.
"""

from __future__ import annotations

import mmap
import os
import signal
from dataclasses import dataclass

import numpy as np

from wardround.errors import MessageError
from wardround.federation.message import Array, Data
from wardround.federation.worker_process import serve_worker
from wardround.parsing import parse_json
from wardround.process_hardening import forbid_core_dumps
from wardround.secure_aggregation.bfv import BfvParameters, BfvSum, Ciphertexts

__all__ = ["ChunkSums", "buffer_of"]


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The running sum of one chunk; the first update determines the number of blocks."""

    parameters: BfvParameters
    buffer: Array
    sum: BfvSum

    def add(self, blocks: int) -> None:
        length = self.parameters.fresh.length
        self.sum.add(Ciphertexts(self.buffer[: blocks * length], np.full(blocks, length, np.int32)))

    def total(self) -> int:
        """Write the sum to the buffer; return its number of blocks."""
        total = self.sum.total()
        self.buffer[: len(total.data)] = total.data
        return len(total.lengths)


class ChunkSums:
    """Running sums by number; a `BytesWorker` that receives this number instead of a round."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._buffers: dict[str, Array] = {}

    def answer_bytes(self, step: str, round_number: int, data: Data) -> bytes:
        """Do one step: `begin` a sum, `add` blocks of the buffer, write the `total` to it, or `forget` the sum."""
        if step == "begin":
            self._chunks[round_number] = self._begin(**parse_json(bytes(data)))
        elif step == "add":
            self._chunk(round_number).add(int(data))
        elif step == "total":
            return b"%d" % self._chunk(round_number).total()
        elif step == "forget":
            self._chunks.pop(round_number, None)
        else:
            raise MessageError("step", "a worker does not know this step")
        return b""

    def close(self) -> None:
        """Do nothing: sums are not saved."""

    def _begin(self, packing: str, buffer: str) -> _Chunk:
        if buffer not in self._buffers:
            descriptor = os.open(buffer, os.O_RDWR)
            self._buffers = {buffer: buffer_of(descriptor)}
            os.close(descriptor)
        parameters = BfvParameters(packing)
        return _Chunk(parameters, self._buffers[buffer], BfvSum(parameters))

    def _chunk(self, number: int) -> _Chunk:
        if number not in self._chunks:
            raise MessageError("lost", "this sum began in a process that has ended")
        return self._chunks[number]


def buffer_of(descriptor: int) -> Array:
    """Map an open file into memory that all processes with the file share."""
    return np.frombuffer(mmap.mmap(descriptor, 0), np.uint8)


if __name__ == "__main__":
    forbid_core_dumps()
    # Ctrl-C in a terminal reaches every process of the group; this one ends with its parent, or on request.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve_worker(ChunkSums)
