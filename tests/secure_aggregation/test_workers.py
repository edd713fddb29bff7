from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.processes import eventually, is_running, open_files

from wardround.errors import FederationError, MessageError
from wardround.secure_aggregation import workers as module
from wardround.secure_aggregation.bfv import BfvParameters, BfvSum, Ciphertexts, Opener, Sealer
from wardround.secure_aggregation.codecs import BfvCodec
from wardround.secure_aggregation.worker_loop import ChunkSums
from wardround.secure_aggregation.workers import DividedSum, RunningSum, WorkerPool, running_sum

pytest.importorskip("tenseal", reason="install wardround[sealed]")

STANDARD, COMPACT = BfvParameters("standard"), BfvParameters("compact")
SECRETS = {parameters.name: parameters.new_secret() for parameters in (STANDARD, COMPACT)}
BLOCKS = 7
HEAD, NUMBERS = 123, 4096 * 8  # bytes of a fresh block


def sealed(slot: int, blocks: int = BLOCKS, parameters: BfvParameters = STANDARD) -> Ciphertexts:
    """All slots of a block are equal, and 1000 more than those of the previous block."""
    slots = slot + 1000 * np.arange(blocks, dtype=np.uint64).repeat(parameters.block)
    sealer, weights = Sealer(parameters, SECRETS[parameters.name]), np.ones(blocks, np.uint64)
    return sealer.seal(slots, weights).ciphertexts


ONE, TWO, THREE = sealed(1), sealed(20), sealed(300)


def added(running: RunningSum, *ciphertexts: Ciphertexts) -> Ciphertexts:
    for one in ciphertexts:
        running.add(one)
    return running.total()


def same(found: Ciphertexts, expected: Ciphertexts) -> bool:
    return np.array_equal(found.data, expected.data) and np.array_equal(found.lengths, expected.lengths)


def altered(ciphertexts: Ciphertexts, at: int, new: bytes) -> Ciphertexts:
    data = ciphertexts.data.copy()
    data[at : at + len(new)] = np.frombuffer(new, np.uint8)
    return Ciphertexts(data, ciphertexts.lengths)


def pids(workers: WorkerPool) -> list[int]:
    """Return the ids of the running processes."""
    processes = [worker.process._process for worker in workers.all]
    return [process.pid for process in processes if process is not None]


def is_gone(pid: int) -> bool:
    """Return whether a process has ended and was waited for."""
    return not Path(f"/proc/{pid}").exists()


def peak_kilobytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


@pytest.fixture(scope="module")
def two() -> Iterator[WorkerPool]:
    """Two workers, and this process."""
    workers = WorkerPool(2)
    yield workers
    workers.close()


@pytest.fixture
def own() -> Iterator[WorkerPool]:
    """Return one worker for a single test."""
    workers = WorkerPool(1)
    yield workers
    workers.close()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """Simulate two cores, and let `running_sum` divide a sum of two blocks."""
    monkeypatch.setattr(module, "_FEWEST_BLOCKS", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    module._shared_workers.cache_clear()
    workers = module._shared_workers(os.getpid(), 1)
    yield workers
    workers.close()
    module._shared_workers.cache_clear()


@pytest.mark.parametrize("parameters", [STANDARD, COMPACT], ids=lambda parameters: parameters.name)
def test_a_divided_sum_equals_the_undivided_sum(two: WorkerPool, parameters: BfvParameters) -> None:
    sites = [sealed(slot, 3, parameters) for slot in (1, 20, 300)]
    total = added(DividedSum(parameters, 3, two), *sites)
    assert same(total, added(BfvSum(parameters), *sites))
    slots = Opener(parameters, SECRETS[parameters.name]).open(total, 3 * 4096)
    assert [set(block.tolist()) for block in slots.reshape(3, 4096)] == [{321}, {3321}, {6321}]


@pytest.mark.parametrize("blocks", [3, 4, BLOCKS])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_bytes_do_not_depend_on_the_number_of_workers(two: WorkerPool, count: int, blocks: int) -> None:
    workers = WorkerPool(0)
    workers.all = two.all[:count]
    sites = [sealed(1, blocks), sealed(2, blocks)]
    assert same(added(DividedSum(STANDARD, blocks, workers), *sites), added(BfvSum(STANDARD), *sites))


def test_long_sums_are_added_in_turns(two: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._turns(BLOCKS, 3) == [[slice(0, 2), slice(2, 4), slice(4, 7)]]
    monkeypatch.setattr(module, "_LONGEST_CHUNK", 2)
    assert module._turns(6, 3) == [[slice(0, 2), slice(2, 4), slice(4, 6)]]
    assert module._turns(BLOCKS, 3) == [
        [slice(0, 1), slice(1, 2), slice(2, 3)],
        [slice(3, 4), slice(4, 5), slice(5, 7)],
    ]
    running = DividedSum(STANDARD, BLOCKS, two)
    assert same(added(running, ONE, TWO), added(BfvSum(STANDARD), ONE, TWO))
    assert same(added(running, THREE), added(BfvSum(STANDARD), ONE, TWO, THREE))


def test_adding_may_continue_after_a_total(two: WorkerPool) -> None:
    running = DividedSum(STANDARD, BLOCKS, two)
    assert same(added(running, ONE), added(BfvSum(STANDARD), ONE))
    assert same(running.total(), running.total())
    assert same(added(running, TWO), added(BfvSum(STANDARD), ONE, TWO))


LAST = 6 * len(ONE.data) // BLOCKS  # where the last block begins, which is a worker's


@pytest.mark.parametrize(
    "malformed",
    [
        sealed(1, BLOCKS - 1),
        altered(ONE, LAST, b"x"),
        altered(ONE, LAST + HEAD, b"\xff" * 8),
        sealed(1, BLOCKS, COMPACT),
        Ciphertexts(ONE.data[:-1], ONE.lengths),
        Ciphertexts(ONE.data.astype(np.int8), ONE.lengths),
    ],
    ids=["blocks", "form", "ring", "packing", "short", "kind"],
)
def test_malformed_ciphertexts_leave_the_sum_unchanged(two: WorkerPool, malformed: Ciphertexts) -> None:
    running = DividedSum(STANDARD, BLOCKS, two)
    with pytest.raises(MessageError, match="ciphertext"):
        running.add(malformed)
    running.add(ONE)
    with pytest.raises(MessageError, match="ciphertext"):
        running.add(malformed)
    assert same(added(running, TWO), added(BfvSum(STANDARD), ONE, TWO))


def test_a_sum_of_no_updates_is_refused(two: WorkerPool) -> None:
    running = DividedSum(STANDARD, BLOCKS, two)
    with pytest.raises(MessageError, match="empty"):
        running.total()
    assert same(added(running, ONE), added(BfvSum(STANDARD), ONE))


def test_a_sum_that_is_not_random_is_refused_in_every_process(two: WorkerPool) -> None:
    zeros = altered(ONE, LAST + HEAD, bytes(NUMBERS))
    running = DividedSum(STANDARD, BLOCKS, two)
    running.add(zeros)
    with pytest.raises(MessageError, match="no honest site"):
        running.total()
    assert same(added(running, TWO), added(BfvSum(STANDARD), zeros, TWO))


def test_sums_do_not_mix_and_are_freed(own: WorkerPool) -> None:
    first, second = DividedSum(STANDARD, BLOCKS, own), DividedSum(STANDARD, BLOCKS, own)
    first.add(ONE)
    second.add(TWO)
    assert same(added(first, TWO), added(BfvSum(STANDARD), ONE, TWO))
    assert same(added(second, THREE), added(BfvSum(STANDARD), TWO, THREE))
    (left,) = first._shares[1].sums
    del first
    assert len(left.total().lengths) == 4
    added(DividedSum(STANDARD, BLOCKS, own), ONE)
    with pytest.raises(FederationError, match="lost"):
        left.total()
    assert same(second.total(), added(BfvSum(STANDARD), TWO, THREE))


def test_a_dead_worker_fails_this_exchange_but_not_the_next(own: WorkerPool) -> None:
    running = DividedSum(STANDARD, BLOCKS, own)
    running.add(ONE)
    (pid,) = pids(own)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(FederationError, match="try the round again"):
        running.add(TWO)
    for ask in (running.total, lambda: running.add(TWO)):
        with pytest.raises(FederationError, match="a part of the exchange's sum is lost"):
            ask()
    assert is_gone(pid)
    assert same(added(DividedSum(STANDARD, BLOCKS, own), ONE, TWO), added(BfvSum(STANDARD), ONE, TWO))
    assert pids(own) != [pid]


def test_a_worker_that_dies_before_the_total(own: WorkerPool) -> None:
    running = DividedSum(STANDARD, BLOCKS, own)
    running.add(ONE)
    os.kill(pids(own)[0], signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(FederationError, match="try the round again"):
            running.total()


def test_a_worker_that_dies_during_an_addition(own: WorkerPool) -> None:
    running = DividedSum(STANDARD, BLOCKS, own)
    running.add(ONE)
    (pid,) = pids(own)
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(FederationError, match="worker-died"):
        running.add(TWO)
    assert is_gone(pid)


def test_a_worker_that_hangs_is_killed(own: WorkerPool) -> None:
    running = DividedSum(STANDARD, BLOCKS, own)
    running.add(ONE)
    assert running._patience == pytest.approx(60.07)  # seconds
    running._patience = 0.2
    (pid,) = pids(own)
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(FederationError, match="worker-died"):
        running.add(TWO)
    assert time.monotonic() - started < 30
    assert is_gone(pid)


@pytest.mark.parametrize("command", [("/nowhere/python",), ("true",), (sys.executable, "-c", "raise SystemExit(1)")])
def test_the_share_of_a_worker_that_cannot_start_is_added_in_this_process(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COMMAND", command)
    running = DividedSum(STANDARD, BLOCKS, WorkerPool(2))
    assert same(added(running, ONE, TWO), added(BfvSum(STANDARD), ONE, TWO))


def test_no_process_is_left_after_close() -> None:
    workers = WorkerPool(2)
    running = DividedSum(STANDARD, BLOCKS, workers)
    running.add(ONE)
    before = pids(workers)
    assert len(before) == 2
    workers.close()
    workers.close()
    assert pids(workers) == []
    assert all(is_gone(pid) for pid in before)


def test_workers_ignore_the_terminals_interrupt(own: WorkerPool) -> None:
    running = DividedSum(STANDARD, BLOCKS, own)
    running.add(ONE)
    os.kill(pids(own)[0], signal.SIGINT)
    assert same(added(running, TWO), added(BfvSum(STANDARD), ONE, TWO))


def test_threads_may_add_to_sums_of_their_own(two: WorkerPool) -> None:
    totals: dict[int, Ciphertexts] = {}

    def work(place: int, site: Ciphertexts) -> None:
        totals[place] = added(DividedSum(STANDARD, BLOCKS, two), ONE, site)

    threads = [threading.Thread(target=work, args=each) for each in enumerate((TWO, THREE))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same(totals[0], added(BfvSum(STANDARD), ONE, TWO))
    assert same(totals[1], added(BfvSum(STANDARD), ONE, THREE))


def test_small_sums_and_single_cores_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(module, "_shared_workers", lambda _, count: asked.append(count) or WorkerPool(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert isinstance(running_sum(STANDARD, 99), BfvSum)
    assert asked == []
    assert isinstance(running_sum(STANDARD, 100), DividedSum)
    assert asked == [3]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert isinstance(running_sum(STANDARD, 10_000), BfvSum)
    assert asked == [3]


def test_the_coordinators_sums_share_their_workers(shared: WorkerPool) -> None:
    slots = BLOCKS * STANDARD.block
    expected = added(BfvSum(STANDARD), ONE, TWO)
    seen = set()
    for _ in range(2):
        running = BfvCodec(STANDARD).sum(slots)
        for site in (ONE, TWO):
            running.add({"sealed": site.data, "lengths": site.lengths})
        assert np.array_equal(running.total()["sealed"], expected.data)
        seen.update(pids(shared))
    assert len(seen) == 1


def test_memory_does_not_grow_with_the_number_of_sites(own: WorkerPool) -> None:
    site, peaks = sealed(1, 60), []
    running = DividedSum(STANDARD, 60, own)
    for sites in range(1, 25):
        running.add(site)
        if sites in (4, 24):
            peaks.append(sum(map(peak_kilobytes, (*pids(own), os.getpid()))))
    assert peaks[1] - peaks[0] < 1000  # an update has 1,900


PARENT = """
import sys
import numpy as np
from wardround.secure_aggregation import workers as workers
from wardround.secure_aggregation.bfv import BfvParameters, Sealer
parameters = BfvParameters("standard")
sealer = Sealer(parameters, parameters.new_secret())
workers._FEWEST_BLOCKS, workers.os.sched_getaffinity = 2, lambda _: {0, 1}
running = workers.running_sum(parameters, 2)
running.add(sealer.seal(np.zeros(4097, np.uint64), np.zeros(2, np.uint64)).ciphertexts)
print(workers._shared_workers(workers.os.getpid(), 1).all[0].process._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "at its end"])
def test_no_worker_outlives_its_parent(killed: bool) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    if killed:
        parent.kill()
    _, errors = parent.communicate(timeout=60)
    assert eventually(lambda: not is_running(pid)) if killed else is_gone(pid)  # at its end, the parent waits for it
    assert (parent.returncode, errors) == (-signal.SIGKILL if killed else 0, b"")


def test_a_worker_loads_few_modules_and_none_that_could_hold_a_key() -> None:
    heavy = "{'torch', 'transformers', 'cryptography', 'matplotlib', 'wardround.secure_aggregation.keys.vault'}"
    source = f"import sys, wardround.secure_aggregation.worker_loop; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", source], check=True)


@pytest.fixture
def buffer(own: WorkerPool) -> module._SharedBuffer:
    return own.all[0].buffer


def begun(buffer: module._SharedBuffer) -> ChunkSums:
    """Begin sum 7 at a worker's end in this process."""
    chunks = ChunkSums()
    said = json.dumps({"packing": "standard", "buffer": buffer.path}).encode()
    assert chunks.answer_bytes("begin", 7, said) == b""
    return chunks


def test_the_steps_of_a_worker(buffer: module._SharedBuffer) -> None:
    chunks, expected = begun(buffer), added(BfvSum(STANDARD), ONE).data
    buffer.bytes[: len(ONE.data)] = ONE.data
    assert chunks.answer_bytes("add", 7, b"7") == b""
    assert chunks.answer_bytes("total", 7, b"") == b"7"
    assert np.array_equal(buffer.bytes[: len(expected)], expected)
    assert chunks.answer_bytes("forget", 7, b"") == chunks.answer_bytes("forget", 8, b"") == b""
    for step, number, code in [("add", 7, "lost"), ("total", 8, "lost"), ("open", 7, "step")]:
        with pytest.raises(MessageError) as refused:
            chunks.answer_bytes(step, number, b"7")
        assert refused.value.code == code


def test_a_worker_checks_what_it_adds(buffer: module._SharedBuffer) -> None:
    chunks = begun(buffer)
    buffer.bytes[: len(ONE.data)] = altered(ONE, LAST, b"x").data
    with pytest.raises(MessageError, match="other parameters"):
        chunks.answer_bytes("add", 7, b"7")
    assert chunks.answer_bytes("add", 7, b"6") == b""


def test_a_shared_buffer_that_no_worker_can_open(own: WorkerPool, buffer: module._SharedBuffer) -> None:
    buffer.path = "/nowhere/tray"
    running = DividedSum(STANDARD, BLOCKS, own)
    assert same(added(running, ONE, TWO), added(BfvSum(STANDARD), ONE, TWO))
    assert [share.worker for share in running._shares] == [None, None]


def test_the_shared_buffer_has_room_for_the_longest_chunk() -> None:
    assert STANDARD.summed.length == COMPACT.summed.length == 123 + 2 * NUMBERS
    assert module._LONGEST_CHUNK * STANDARD.summed.length <= module._BUFFER


def test_no_file_stays_open() -> None:
    before = open_files()
    workers = WorkerPool(2)
    added(DividedSum(STANDARD, BLOCKS, workers), ONE)
    workers.close()
    del workers
    assert open_files() <= before
