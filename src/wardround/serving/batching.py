"""Batches across requests: texts that wait while the model is busy are read together as soon as it is free.

No request waits for others to come: a text that finds the model idle is read at once. A short text alone is read by the
event loop itself, because waking another thread can take longer than a small model.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["Batcher", "ModelThread", "OverloadedError"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class OverloadedError(Exception):
    """Too many items are waiting."""


class ModelThread:
    """The one thread that a model runs in; while it is idle, the event loop may run a quick call itself."""

    def __init__(self) -> None:
        self.is_quick = False  # whether a short text takes so little time that the event loop may wait for it
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._running = 0

    async def run(self, call: Callable[[list[Item]], list[Answer]], items: list[Item], *, short: bool) -> list[Answer]:
        """Return the answers of a call; calls never overlap."""
        if short and self.is_quick and not self._running:
            return call(items)
        self._running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call, items)
        finally:
            self._running -= 1

    def close(self) -> None:
        """Wait for the running call."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class Batcher(Generic[Item, Answer]):
    """Collects the items of concurrent callers and answers them in batches.

    If a batch fails, its items are tried one by one, so that one text cannot spoil the answers of other callers.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], list[Answer]],
        thread: ModelThread,
        *,
        size: int,
        waiting: int,
        seen: Callable[[int], None] = lambda size: None,
        is_short: Callable[[Item], bool] = lambda item: False,
    ) -> None:
        """Answer with `run`, `size` items at once; `seen` gets the size of each batch."""
        self._run, self._thread, self._size, self._most, self._seen = run, thread, size, waiting, seen
        self._is_short = is_short
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Return how many items wait for the next batch."""
        return len(self._waiting)

    async def answer(self, items: Sequence[Item]) -> list[Answer]:
        """Return the answers in the order of the items; raise `OverloadedError` if too many items are waiting."""
        if len(self._waiting) + len(items) > self._most:
            raise OverloadedError
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in items]
        self._waiting.extend(zip(items, futures, strict=True))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return list(await asyncio.gather(*futures))
        finally:
            for future in futures:  # a caller that left, or whose first text failed, does not wait for the others
                future.cancel()

    async def _work(self) -> None:
        while self._waiting:
            batch = list[tuple[Item, asyncio.Future[Answer]]]()
            while self._waiting and len(batch) < self._size:
                item, future = self._waiting.popleft()
                if not future.done():
                    batch.append((item, future))
            if batch:
                self._seen(len(batch))
                await self._answer_batch(batch)

    async def _answer_batch(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        items = [item for item, _ in batch]
        try:
            answers = await self._thread.run(self._run, items, short=len(items) == 1 and self._is_short(items[0]))
            assert len(answers) == len(batch), "there is one answer for each item"
        except Exception as error:
            if len(batch) > 1:
                for pair in batch:
                    await self._answer_batch([pair])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
