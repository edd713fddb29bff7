"""A lane, which keeps some stretches of a sealed sum; ciphertexts come in, sums go out, and no key is here."""

from __future__ import annotations

import signal

import numpy as np

from wardround.errors import MessageError
from wardround.federation.worker_process import serve_worker
from wardround.privacy.bfv import BfvParameters, Ciphertexts, RunningSum

__all__ = ["Stretches"]


class Stretches:
    """Running sums, each known by a number; a `BytesWorker` to which that number comes in place of a round's."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[BfvParameters, RunningSum]] = {}

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        """`begin` a sum in the packing that `data` names, `add` blocks, give the `total`, `forget`."""
        if step == "begin":
            parameters = BfvParameters(data.decode())
            self._sums[round_number] = parameters, RunningSum(parameters)
        elif step == "add":
            self._add(round_number, data)
        elif step == "total":
            return self._sum(round_number)[1].total().data.tobytes()
        elif step == "forget":
            self._sums.pop(round_number, None)
        else:
            raise MessageError("step", "a lane does no such thing")
        return b""

    def close(self) -> None:
        """Nothing of a sum must last."""

    def _add(self, number: int, data: bytes) -> None:
        parameters, running = self._sum(number)
        length = parameters.fresh.length
        running.add(Ciphertexts(np.frombuffer(data, np.uint8), np.full(len(data) // length, length, np.int32)))

    def _sum(self, number: int) -> tuple[BfvParameters, RunningSum]:
        if number not in self._sums:
            raise MessageError("lost", "this sum was begun in a process that has ended since")
        return self._sums[number]


def _main() -> None:
    # A terminal's Ctrl-C comes to every process of its group; this one ends when its parent ends or wants it to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve_worker(Stretches)


if __name__ == "__main__":
    _main()
