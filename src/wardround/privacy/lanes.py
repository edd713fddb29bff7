"""A sealed sum on several cores: its blocks are divided among processes, for SEAL's bindings keep threads waiting.

Most of an addition is growing a ciphertext's random half from its seed, block by block, so that it takes half as long
where two share the blocks. This process takes the first share, and each lane one of the others. Processes stay from one
exchange to the next, since starting one takes as long as adding a few updates.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise
from typing import Any, Protocol

import numpy as np

from wardround.errors import FederationError, MessageError
from wardround.federation.federation import code_of
from wardround.federation.message import Array
from wardround.federation.worker_process import WorkerProcess
from wardround.privacy.bfv import BfvParameters, Ciphertexts, RunningSum, check

__all__ = ["BlockSum", "DividedSum", "Lanes", "running_sum"]

_COMMAND = (sys.executable, "-P", "-m", "wardround.privacy.lane_process")
_MOST_CORES = 4
_FEWEST_BLOCKS = 100  # of an update that is worth dividing; one core adds them in 0.015 s, two in 0.010 s
_LONGEST_STRETCH = 512  # blocks that go to a lane at once, 17 MB; their sum, which comes back, is twice as long
_SECONDS, _SECONDS_A_BLOCK = 60.0, 0.01  # that a lane may take; it needs 0.0002 a block


class BlockSum(Protocol):
    """A running sum of ciphertexts."""

    def add(self, ciphertexts: Ciphertexts) -> None:
        """Add one site's; what is refused with a `MessageError` leaves the sum as it was."""

    def total(self) -> Ciphertexts:
        """The sum so far; adding may go on."""


def running_sum(parameters: BfvParameters, blocks: int) -> BlockSum:
    """A sum of so many blocks, divided where there are cores for it and it is long enough."""
    cores = min(_MOST_CORES, len(os.sched_getaffinity(0)))
    if cores == 1 or blocks < _FEWEST_BLOCKS:
        return RunningSum(parameters, blocks)
    return DividedSum(parameters, blocks, _shared_lanes(os.getpid(), cores - 1))


class Lanes:
    """Processes that add beside this one; each starts when it is first needed, and anew when it has died."""

    def __init__(self, count: int) -> None:
        self.all = tuple(_Lane() for _ in range(count))

    def close(self) -> None:
        """End the processes, and with them what they hold; the next sum starts others."""
        for lane in self.all:
            lane.process.close()


class DividedSum:
    """A `RunningSum` whose blocks are divided among this process and lanes.

    A lane that dies takes its share along: that, and whatever is asked of the sum afterwards, is a `FederationError`.
    The share of a lane that could not begin is added here.
    """

    def __init__(self, parameters: BfvParameters, blocks: int, lanes: Lanes) -> None:
        self._parameters, self._blocks = parameters, blocks
        self._patience = _SECONDS + _SECONDS_A_BLOCK * blocks
        self._is_whole = True
        own, *others = _divided(blocks, 1 + len(lanes.all))
        self._here = [self._share_here(own)]
        self._there: list[tuple[_Lane, _Share]] = []
        # Nobody waits for it yet: lanes start while the sites are still sealing.
        self._beginning = [(lane, lane.begin(parameters, ours)) for lane, ours in zip(lanes.all, others, strict=True)]
        for lane, begun in self._beginning:
            weakref.finalize(self, lane.forgotten.append, begun.numbers)

    def add(self, ciphertexts: Ciphertexts) -> None:
        """Add one site's; what is refused, as by `check`, leaves the sum as it was."""
        check(self._parameters, ciphertexts, self._blocks)
        self._check_whole()
        self._settle()
        self._is_whole = False  # unless all come to the end of it
        self._each(lambda share: share.add(ciphertexts, self._parameters.fresh.length))
        self._is_whole = True

    def total(self) -> Ciphertexts:
        """The sum so far; adding may go on."""
        self._check_whole()
        length = self._parameters.summed.length
        data: Array = np.empty(self._blocks * length, np.uint8)
        self._each(lambda share: share.save(data, length))
        return Ciphertexts(data, np.full(self._blocks, length, np.int32))

    def _check_whole(self) -> None:
        if not self._is_whole:
            raise FederationError("a part of the exchange's sum is lost; try the round again")

    def _settle(self) -> None:
        """Know who adds what."""
        for lane, begun in self._beginning:
            self._wait([(lane, begun.done)])
            try:
                self._there.append((lane, _Share(begun.stretches, begun.done.result())))
            except FederationError:
                self._here.append(self._share_here(begun.stretches))
        self._beginning = []

    def _share_here(self, stretches: Sequence[slice]) -> _Share:
        return _Share(stretches, [RunningSum(self._parameters) for _ in stretches])

    def _each(self, work: Callable[[_Share], None]) -> None:
        """Have everybody work on his share, at the same time."""
        asked = [(lane, lane.thread.submit(work, share)) for lane, share in self._there]
        try:
            for share in self._here:
                work(share)
        finally:
            self._wait(asked)
        for _, done in asked:
            done.result()

    def _wait(self, asked: Sequence[tuple[_Lane, Future[Any]]]) -> None:
        """Until all are done; one that takes too long is killed, which is an answer too."""
        late = wait([done for _, done in asked], self._patience).not_done
        for lane, done in asked:
            if done in late:
                lane.process.kill()


class _Lane:
    """A process, and the thread that asks it: one thing after the other, in order."""

    def __init__(self) -> None:
        self.process = WorkerProcess(_COMMAND, errors=subprocess.DEVNULL)
        self.thread = ThreadPoolExecutor(1)
        # Numbers of sums that are gone. Python says so at any time, and within anything: whoever begins next tells it.
        self.forgotten: deque[Sequence[int]] = deque()
        self._numbers = count(1)

    def begin(self, parameters: BfvParameters, stretches: Sequence[slice]) -> _Begun:
        numbers = [next(self._numbers) for _ in stretches]
        sums = [_SumThere(self.process, parameters, number) for number in numbers]
        return _Begun(stretches, numbers, self.thread.submit(self._begin, sums))

    def _begin(self, sums: Sequence[_SumThere]) -> Sequence[_SumThere]:
        while self.forgotten:
            for number in self.forgotten.popleft():
                _ask(self.process, "forget", number)
        for one in sums:
            one.begin()
        return sums


@dataclass(frozen=True)
class _Begun:
    """What a lane was asked to begin: stretches of blocks, the numbers of their sums, and whether it has."""

    stretches: Sequence[slice]
    numbers: Sequence[int]
    done: Future[Sequence[_SumThere]]


@dataclass(frozen=True)
class _Share:
    """Stretches of blocks, each with its sum."""

    stretches: Sequence[slice]
    sums: Sequence[BlockSum]

    def add(self, ciphertexts: Ciphertexts, length: int) -> None:
        for stretch, own in zip(self.stretches, self.sums, strict=True):
            own.add(Ciphertexts(ciphertexts.data[_bytes(stretch, length)], ciphertexts.lengths[stretch]))

    def save(self, data: Array, length: int) -> None:
        for stretch, own in zip(self.stretches, self.sums, strict=True):
            data[_bytes(stretch, length)] = own.total().data


@dataclass(frozen=True)
class _SumThere:
    """A running sum in a lane."""

    process: WorkerProcess
    parameters: BfvParameters
    number: int

    def begin(self) -> None:
        _ask(self.process, "begin", self.number, self.parameters.name.encode())

    def add(self, ciphertexts: Ciphertexts) -> None:
        _ask(self.process, "add", self.number, ciphertexts.data.tobytes())

    def total(self) -> Ciphertexts:
        data = np.frombuffer(_ask(self.process, "total", self.number), np.uint8)
        length = self.parameters.summed.length
        return Ciphertexts(data, np.full(len(data) // length, length, np.int32))


def _ask(process: WorkerProcess, step: str, number: int, data: bytes = b"") -> bytes:
    try:
        return process.answer_bytes(step, number, data)
    except (MessageError, OSError) as error:
        code = code_of(error)
        if code == "ciphertext":
            raise MessageError(code, "a sum is not random: no honest site is in it; ask others") from None
        raise FederationError(f"a process that adds sealed updates failed ({code}); try the round again") from None


def _bytes(stretch: slice, length: int) -> slice:
    return slice(stretch.start * length, stretch.stop * length)


def _divided(blocks: int, shares: int) -> list[list[slice]]:
    """Blocks in as many shares, each in stretches that are not too long."""
    return [_cut(start, stop) for start, stop in pairwise(_edges(0, blocks, shares))]


def _cut(start: int, stop: int) -> list[slice]:
    pieces = -(-(stop - start) // _LONGEST_STRETCH)
    return [slice(*ends) for ends in pairwise(_edges(start, stop, pieces))] if pieces else []


def _edges(start: int, stop: int, pieces: int) -> list[int]:
    return [start - (start - stop) * piece // pieces for piece in range(pieces + 1)]


@lru_cache(maxsize=1)
def _shared_lanes(process: int, count: int) -> Lanes:
    """The lanes of a process; one that was forked off has none of its parent's."""
    lanes = Lanes(count)
    atexit.register(lanes.close)
    return lanes
