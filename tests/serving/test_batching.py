from __future__ import annotations

import asyncio
import threading

import pytest

from wardround.serving.batching import Batcher, ModelThread, OverloadedError


def doubled(numbers: list[int]) -> list[int]:
    if 13 in numbers:
        raise ValueError("thirteen")
    return [2 * number for number in numbers]


def batcher(sizes: list[int], *, size: int = 4, waiting: int = 100) -> Batcher[int, int]:
    return Batcher(doubled, ModelThread(), size=size, waiting=waiting, seen=sizes.append)


def test_answers_are_in_the_order_of_the_items_whatever_the_batches() -> None:
    async def run() -> list[list[int]]:
        sizes = list[int]()
        ours = batcher(sizes)
        found = await asyncio.gather(ours.answer([1, 2, 3]), ours.answer([4, 5, 6]), ours.answer([7]))
        assert sizes == [4, 3]
        return found

    assert asyncio.run(run()) == [[2, 4, 6], [8, 10, 12], [14]]


def test_an_item_that_fails_does_not_fail_others() -> None:
    async def run() -> None:
        ours = batcher([])
        found = await asyncio.gather(ours.answer([1]), ours.answer([13]), ours.answer([3]), return_exceptions=True)
        assert (found[0], found[2]) == ([2], [6])
        assert isinstance(found[1], ValueError)

    asyncio.run(run())


def test_more_items_than_may_wait_are_refused() -> None:
    async def run() -> None:
        ours = batcher([], waiting=2)
        with pytest.raises(OverloadedError):
            await ours.answer([1, 2, 3])
        assert await ours.answer([1, 2]) == [2, 4]
        assert ours.waiting == 0

    asyncio.run(run())


def test_items_of_a_caller_that_left_are_not_read() -> None:
    async def run() -> None:
        sizes = list[int]()
        ours = batcher(sizes, size=1)
        gone = asyncio.create_task(ours.answer([1, 2, 3, 4, 5, 6, 7, 8]))
        await asyncio.sleep(0)
        gone.cancel()
        assert await ours.answer([9]) == [18]
        assert len(sizes) <= 3

    asyncio.run(run())


def test_a_short_item_alone_is_read_without_another_thread() -> None:
    async def run() -> None:
        threads = list[bool]()

        def where(items: list[int]) -> list[int]:
            threads.append(threading.current_thread() is threading.main_thread())
            return items

        model = ModelThread()
        ours = Batcher(where, model, size=4, waiting=100, is_short=lambda number: number < 10)
        await ours.answer([1])  # not known to be quick yet
        model.is_quick = True
        await ours.answer([1])
        await ours.answer([10])
        await asyncio.gather(ours.answer([1]), ours.answer([2]))  # together in one batch
        assert threads == [False, True, False, False]
        model.close()

    asyncio.run(run())
