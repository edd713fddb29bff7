"""A lane: a process that keeps some stretches of a sealed sum. Ciphertexts come, sums go, and no key is ever here.

Parent and lane tell one another over pipes what is to be done, and put the blocks themselves on a tray: memory that
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
from wardround.privacy.bfv import BfvParameters, Ciphertexts, RunningSum
from wardround.process_hardening import forbid_core_dumps

__all__ = ["Stretches", "tray_of"]


@dataclass(frozen=True, eq=False)
class _Stretch:
    """A running sum of as many blocks as lie on the tray when the first are added."""

    parameters: BfvParameters
    tray: Array
    sum: RunningSum

    def add(self, blocks: int) -> None:
        length = self.parameters.fresh.length
        self.sum.add(Ciphertexts(self.tray[: blocks * length], np.full(blocks, length, np.int32)))

    def total(self) -> int:
        """Put the sum on the tray; how many blocks it has."""
        total = self.sum.total()
        self.tray[: len(total.data)] = total.data
        return len(total.lengths)


class Stretches:
    """Running sums, each known by a number; a `BytesWorker` to which that number comes in place of a round's."""

    def __init__(self) -> None:
        self._stretches: dict[int, _Stretch] = {}
        self._trays: dict[str, Array] = {}

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        """`begin` a sum, `add` so many blocks from the tray, put as many of the `total` on it, `forget` the sum."""
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

    def _begun(self, packing: str, tray: str) -> _Stretch:
        if tray not in self._trays:
            descriptor = os.open(tray, os.O_RDWR)
            self._trays = {tray: tray_of(descriptor)}
            os.close(descriptor)
        parameters = BfvParameters(packing)
        return _Stretch(parameters, self._trays[tray], RunningSum(parameters))

    def _stretch(self, number: int) -> _Stretch:
        if number not in self._stretches:
            raise MessageError("lost", "this sum was begun in a process that has ended since")
        return self._stretches[number]


def tray_of(descriptor: int) -> Array:
    """An open file's bytes, the same for all who have it open."""
    return np.frombuffer(mmap.mmap(descriptor, 0), np.uint8)


def _main() -> None:
    # A terminal's Ctrl-C comes to every process of its group; this one ends when its parent ends or wants it to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve_worker(Stretches)


if __name__ == "__main__":
    forbid_core_dumps()
    _main()
