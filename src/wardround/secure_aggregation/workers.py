"""A sum of ciphertexts on several cores: its blocks are divided among processes, because SEAL's bindings block threads.

Most of the time of an addition goes into expanding a ciphertext's random half from its seed, block by block, so two
processes take half as long as one. This process takes the first share, and each worker takes one of the others. Workers
are kept from one exchange to the next, because starting one takes as long as adding a few updates.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import count, pairwise
from typing import Any

import numpy as np

from wardround.errors import FederationError, MessageError
from wardround.federation.aggregation import RunningSum
from wardround.federation.federation import code_of
from wardround.federation.message import Array
from wardround.federation.worker_process import WorkerProcess
from wardround.secure_aggregation.bfv import BfvParameters, BfvSum, Ciphertexts, check
from wardround.secure_aggregation.worker_loop import buffer_of

__all__ = ["DividedSum", "WorkerPool", "running_sum"]

_COMMAND = (sys.executable, "-P", "-m", "wardround.secure_aggregation.worker_loop")
_MOST_CORES = 4
_FEWEST_BLOCKS = 100  # smallest update worth dividing; one core adds it in 0.015 s, two in 0.010 s
_LONGEST_CHUNK = 512  # blocks sent to a worker at once
_BUFFER = _LONGEST_CHUNK * 66_000  # bytes; a block of a sum has 65,659
_HEAD_START = 0.002  # seconds
_SECONDS, _SECONDS_PER_BLOCK = 60.0, 0.01  # a worker's time limit; it needs 0.0002 per block


def running_sum(parameters: BfvParameters, blocks: int) -> RunningSum[Ciphertexts, Ciphertexts]:
    """Return an empty sum of `blocks` blocks, divided among processes if it is long and there are several cores."""
    cores = min(_MOST_CORES, len(os.sched_getaffinity(0)))
    if cores == 1 or blocks < _FEWEST_BLOCKS:
        return BfvSum(parameters, blocks)
    return DividedSum(parameters, blocks, _shared_workers(os.getpid(), cores - 1))


class WorkerPool:
    """Processes that add in parallel with this one; each starts when it is first needed, and restarts if it died."""

    def __init__(self, count: int) -> None:
        self.all = tuple(_Worker() for _ in range(count))

    def close(self) -> None:
        """End the processes and drop their sums; the next sum starts new processes."""
        for worker in self.all:
            worker.process.close()


class DividedSum:
    """A running sum whose blocks are divided among this process and workers, with at least one block for each.

    If a worker dies, its share is lost: that call and all later ones raise a `FederationError`. The share of a worker
    that could not start is added in this process.
    """

    def __init__(self, parameters: BfvParameters, blocks: int, workers: WorkerPool) -> None:
        self._parameters, self._blocks = parameters, blocks
        self._patience = _SECONDS + _SECONDS_PER_BLOCK * blocks
        self._turns = _turns(blocks, 1 + len(workers.all))
        self._shares = [self._share_here()]
        # Not awaited yet: workers start while the sites are still encrypting.
        self._beginning = [(worker, worker.begin(self, parameters, len(self._turns))) for worker in workers.all]
        self._is_complete = True

    def add(self, ciphertexts: Ciphertexts) -> None:
        """Add one site's ciphertexts; those that `check` refuses leave the sum unchanged."""
        check(self._parameters, ciphertexts, self._blocks)
        length = self._parameters.fresh.length

        def work(part: RunningSum[Ciphertexts, Ciphertexts], chunk: slice) -> None:
            part.add(Ciphertexts(ciphertexts.data[_byte_range(chunk, length)], ciphertexts.lengths[chunk]))

        self._assign_shares()
        self._is_complete = False  # until every share is added
        self._each(work)
        self._is_complete = True

    def total(self) -> Ciphertexts:
        """Return the sum so far; adding may continue."""
        length = self._parameters.summed.length
        data: Array = np.empty(self._blocks * length, np.uint8)

        def work(part: RunningSum[Ciphertexts, Ciphertexts], chunk: slice) -> None:
            data[_byte_range(chunk, length)] = part.total().data

        self._assign_shares()
        self._each(work)
        return Ciphertexts(data, np.full(self._blocks, length, np.int32))

    def _assign_shares(self) -> None:
        """Wait for the workers to begin, and assign the shares; raise a `FederationError` if a share was lost."""
        if not self._is_complete:
            raise FederationError("a part of the exchange's sum is lost; try the round again")
        for worker, begun in self._beginning:
            self._wait([(worker, begun)])
            self._shares.append(self._share_here() if begun.exception() else _Share(begun.result(), worker))
        self._beginning = []

    def _share_here(self) -> _Share:
        return _Share([BfvSum(self._parameters) for _ in self._turns])

    def _each(self, work: Callable[[RunningSum[Ciphertexts, Ciphertexts], slice], None]) -> None:
        """Apply `work` to the chunks of all shares in parallel, turn by turn."""
        for turn, chunks in enumerate(self._turns):
            shares = zip(self._shares, chunks, strict=True)
            tasks = [(share.worker, partial(work, share.sums[turn], chunk)) for share, chunk in shares]
            asked = [(worker, worker.thread.submit(task)) for worker, task in tasks if worker is not None]
            # A thread that calls SEAL continuously hardly lets other threads run, so the workers are asked first.
            wait([done for _, done in asked], _HEAD_START)
            try:
                for worker, task in tasks:
                    if worker is None:
                        task()
            finally:
                self._wait(asked)
            for _, done in asked:
                done.result()

    def _wait(self, asked: Sequence[tuple[_Worker, Future[Any]]]) -> None:
        """Wait for all; a worker that takes too long is killed, which also ends its call."""
        late = wait([done for _, done in asked], self._patience).not_done
        for worker, done in asked:
            if done in late:
                worker.process.kill()


class _Worker:
    """A process, the thread that sends it one request after another, and the buffer that both share."""

    def __init__(self) -> None:
        self.process = WorkerProcess(_COMMAND, errors=subprocess.DEVNULL, descriptors=lambda: (self.buffer.descriptor,))
        self.thread = ThreadPoolExecutor(1)
        self._numbers = count(1)
        self._forgotten: deque[Sequence[int]] = deque()

    @cached_property
    def buffer(self) -> _SharedBuffer:
        return _SharedBuffer()

    def begin(self, owner: DividedSum, parameters: BfvParameters, sums: int) -> Future[list[_RemoteSum]]:
        """Start the sums; they are freed with `owner`."""
        numbers = [next(self._numbers) for _ in range(sums)]
        # Python may finalize the owner at any moment, so the numbers are only noted here; the next sum frees them.
        weakref.finalize(owner, self._forgotten.append, numbers)
        return self.thread.submit(self._begin, parameters, numbers)

    def ask(self, step: str, number: int, data: bytes = b"") -> bytes:
        try:
            return self.process.answer_bytes(step, number, data)
        except (MessageError, OSError) as error:
            code = code_of(error)
            if code == "ciphertext":
                raise MessageError(code, "a sum is not random, so no honest site is in it; ask other sites") from None
            raise FederationError(f"a process that adds sealed updates failed ({code}); try the round again") from None

    def _begin(self, parameters: BfvParameters, numbers: Sequence[int]) -> list[_RemoteSum]:
        while self._forgotten:
            for number in self._forgotten.popleft():
                self.ask("forget", number)
        request = json.dumps({"packing": parameters.name, "buffer": self.buffer.path}).encode()
        for number in numbers:
            self.ask("begin", number, request)
        return [_RemoteSum(self, parameters, number) for number in numbers]


class _SharedBuffer:
    """Memory shared with a worker, with room for the sum of the longest chunk.

    A worker inherits the descriptor and opens the path of it, because it may not open files of a hardened parent.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("wardround", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self.descriptor)
        os.ftruncate(self.descriptor, _BUFFER)  # unwritten pages take no memory
        self.path = f"/proc/self/fd/{self.descriptor}"
        self.bytes = buffer_of(self.descriptor)


@dataclass(frozen=True)
class _Share:
    """The running sums of one process, one for each turn; without a worker they are in this process."""

    sums: Sequence[RunningSum[Ciphertexts, Ciphertexts]]
    worker: _Worker | None = None


@dataclass(frozen=True)
class _RemoteSum:
    """A running sum in a worker; only the worker's thread may use it."""

    worker: _Worker
    parameters: BfvParameters
    number: int

    def add(self, ciphertexts: Ciphertexts) -> None:
        self.worker.buffer.bytes[: len(ciphertexts.data)] = ciphertexts.data
        self.worker.ask("add", self.number, b"%d" % len(ciphertexts.lengths))

    def total(self) -> Ciphertexts:
        """Return the sum in the shared buffer, which is valid until the next request."""
        blocks, length = int(self.worker.ask("total", self.number)), self.parameters.summed.length
        return Ciphertexts(self.worker.buffer.bytes[: blocks * length], np.full(blocks, length, np.int32))


def _byte_range(chunk: slice, length: int) -> slice:
    return slice(chunk.start * length, chunk.stop * length)


def _turns(blocks: int, shares: int) -> list[list[slice]]:
    """Divide blocks into turns, and each turn into one chunk of limited length per share."""
    assert blocks >= shares, "fewer blocks than processes"
    turns = _edges(0, blocks, -(-blocks // (shares * _LONGEST_CHUNK)))
    return [[slice(*ends) for ends in pairwise(_edges(*turn, shares))] for turn in pairwise(turns)]


def _edges(start: int, stop: int, pieces: int) -> list[int]:
    """Return the boundaries of `pieces` pieces whose lengths differ by at most one."""
    return [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]


@lru_cache(maxsize=1)
def _shared_workers(process: int, count: int) -> WorkerPool:
    """Return the workers of this process; a forked process does not use those of its parent."""
    workers = WorkerPool(count)
    atexit.register(workers.close)
    return workers
