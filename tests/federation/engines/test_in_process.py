from __future__ import annotations

import logging
import threading
import time
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from tests.processes import eventually

from wardround.errors import FederationError, MessageError, TrainingError
from wardround.federation.engines.in_process import InProcessFederation, WorkerPoolFederation
from wardround.federation.federation import Absence, Quorum, Reply
from wardround.federation.message import Message, encode
from wardround.federation.worker_process import RequestHandler

SITES = ("h1", "h2", "h3")
Step = Callable[[str, Message], Message]


def echo(site: str, message: Message) -> Message:
    return Message({"site": site, "step": "echo"}, dict(message.arrays))


class House:
    """Opens workers and records which were opened, asked and closed, and how many exist."""

    def __init__(self, step: Step = echo, *, ballast: int = 0, failing_to_close: str = "") -> None:
        self.step, self.ballast, self.failing_to_close = step, ballast, failing_to_close
        self.opened: list[str] = []
        self.asked: list[str] = []
        self.closed: list[str] = []
        self.alive: weakref.WeakSet[Worker] = weakref.WeakSet()
        self.most_alive = 0

    def open_site(self, site: str) -> RequestHandler:
        worker = Worker(self, site)
        self.opened.append(site)
        self.alive.add(worker)
        self.most_alive = max(self.most_alive, len(self.alive))
        return RequestHandler(worker)


class Worker:
    def __init__(self, house: House, site: str) -> None:
        self.house, self.site, self.ballast = house, site, bytearray(house.ballast)

    def answer(self, step: str, message: Message) -> Message:
        self.house.asked.append(self.site)
        return self.house.step(self.site, message)

    def close(self) -> None:
        self.house.closed.append(self.site)
        if self.site == self.house.failing_to_close:
            raise OSError("the disk is full")


def replies_by_site(step: Step, *sites: str) -> dict[str, Reply]:
    federation = InProcessFederation(sites or SITES, House(step).open_site)
    return {reply.site: reply for reply in federation.ask("step", Message())}


def test_sites_answer_in_the_order_they_are_asked() -> None:
    federation = InProcessFederation(SITES, House().open_site)
    assert federation.sites == SITES
    assert [reply.site for reply in federation.ask("echo", Message())] == ["h1", "h2", "h3"]
    assert [reply.site for reply in federation.ask("echo", Message(), to=["h3", "h1"])] == ["h3", "h1"]
    assert list(federation.ask("echo", Message(), to=[])) == []


def test_a_site_works_only_when_its_reply_is_consumed() -> None:
    house = House()
    replies = InProcessFederation(SITES, house.open_site).ask("echo", Message())
    assert (house.opened, house.asked) == ([], [])
    next(replies)
    assert (house.opened, house.asked) == (["h1"], ["h1"])
    next(replies)
    assert house.asked == ["h1", "h2"]


def test_the_question_is_encoded_when_it_is_asked() -> None:
    federation = InProcessFederation(SITES, House().open_site)
    weights = np.array([1.0, 2.0])
    replies = federation.ask("echo", Message({}, {"w": weights}))
    weights += 100
    assert [list(reply.message.arrays["w"]) for reply in replies if reply.message] == [[1.0, 2.0]] * 3


def test_a_question_that_cannot_be_encoded_fails_before_any_reply_is_consumed() -> None:
    with pytest.raises(MessageError, match=r"^value-kind"):
        InProcessFederation(SITES, House().open_site).ask("echo", Message({"a": float("nan")}))


def test_traffic_is_the_true_number_of_bytes() -> None:
    question = Message({"round": 1}, {"w": np.arange(10, dtype=np.float32)})
    for reply in InProcessFederation(SITES, House().open_site).ask("echo", question):
        assert reply.message is not None
        assert reply.traffic.down == len(encode(question))
        told = len('["worked",8]') + 8  # in the header, and the seconds themselves
        assert reply.traffic.up == len(encode(echo(reply.site, question))) + told
        assert 0 < reply.traffic.worked <= reply.traffic.seconds
        assert 0 < reply.traffic.seconds < 5


def test_nothing_but_bytes_passes_between_site_and_coordinator() -> None:
    kept: list[Message] = []

    def keep(site: str, message: Message) -> Message:
        kept.append(message)
        return message

    weights = np.zeros(3)
    federation = InProcessFederation(SITES, House(keep).open_site)
    (reply,) = federation.ask("keep", Message({}, {"w": weights}), to=["h1"])
    assert reply.message == kept[0]
    assert not np.shares_memory(kept[0].arrays["w"], weights)
    assert reply.message is not None and not np.shares_memory(reply.message.arrays["w"], kept[0].arrays["w"])


class MarkedError(Exception):
    """An error that is not a `WardroundError`."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TrainingError("Mrs Marker"), "TrainingError"),
        (MessageError("shapes", "Mrs Marker"), "shapes"),
        (MarkedError("Mrs Marker"), "MarkedError"),
        (KeyError("Mrs Marker"), "KeyError"),
        (MemoryError("Mrs Marker"), "MemoryError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_error_of_a_site_is_its_absence_and_its_text_stays(
    error: Exception, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_at_h2(site: str, message: Message) -> Message:
        if site == "h2":
            raise error
        return echo(site, message)

    with caplog.at_level(logging.DEBUG):
        replies = replies_by_site(fail_at_h2)
    assert [site for site, _ in Quorum(2).present(replies.values())] == ["h1", "h3"]
    late = replies["h2"]
    assert (late.message, late.absence, late.code) == (None, Absence.FAILED, code)
    assert (late.traffic.down, late.traffic.up) == (len(encode(Message())), 0)
    assert 0 < late.traffic.seconds < 5
    assert "Marker" not in repr(late) + caplog.text


def test_the_first_error_of_a_site_is_kept_as_fault() -> None:
    def fail(site: str, message: Message) -> Message:
        errors = {"h1": KeyError("unforeseen"), "h2": TrainingError("too few"), "h3": TrainingError("too many")}
        raise errors[site]

    house = House(fail)
    federation = InProcessFederation(SITES, house.open_site)
    assert federation.fault is None
    replies = list(federation.ask("echo", Message()))
    assert (type(federation.fault), str(federation.fault)) == (TrainingError, "too few")
    assert federation.fault is not None and federation.fault.__traceback__ is None  # it would keep the site in memory
    assert not any("too few" in repr(reply) for reply in replies)
    federation.ask("echo", Message())
    assert federation.fault is None


def test_an_unexpected_error_is_logged_with_its_location(caplog: pytest.LogCaptureFixture) -> None:
    def fail(site: str, message: Message) -> Message:
        raise ZeroDivisionError("Mrs Marker")

    replies_by_site(fail, "h1")
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("site=h1 step=step failed: ZeroDivisionError at test_in_process.py:")


def test_an_answer_that_cannot_be_sent_is_an_absence() -> None:
    def answer_badly(site: str, message: Message) -> Message:
        return {"h1": Message({"a": float("inf")}), "h2": None, "h3": Message()}[site]  # type: ignore[return-value]

    replies = replies_by_site(answer_badly)
    assert [reply.code for reply in replies.values()] == ["value-kind", "AttributeError", ""]


def test_a_site_that_cannot_be_opened_is_absent() -> None:
    house = House()

    def open_site(site: str) -> Worker:
        if site == "h1":
            raise TrainingError("Mrs Marker")
        return house.open_site(site)

    first, *others = InProcessFederation(SITES, open_site).ask("echo", Message())
    assert (first.absence, first.code) == (Absence.FAILED, "TrainingError")
    assert all(reply.message for reply in others)


def test_a_keyboard_interrupt_is_not_an_absence() -> None:
    def stop(site: str, message: Message) -> Message:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replies_by_site(stop)


def test_workers_are_kept_between_asks_and_closed_once() -> None:
    house = House()
    federation = InProcessFederation(SITES, house.open_site, open_at_once=3)
    for _ in range(3):
        list(federation.ask("echo", Message()))
    assert (house.opened, house.closed) == (["h1", "h2", "h3"], [])
    federation.close()
    federation.close()
    assert sorted(house.closed) == ["h1", "h2", "h3"]
    assert len(house.alive) == 0
    list(federation.ask("echo", Message(), to=["h2"]))
    assert house.opened == ["h1", "h2", "h3", "h2"]


def test_a_site_is_closed_before_another_takes_its_place() -> None:
    house = House()
    federation = InProcessFederation(SITES, house.open_site, open_at_once=2)
    for _ in range(2):
        list(federation.ask("echo", Message()))
    # The first stays; the last opened makes room: h2 for h3, then h3 for h2, then h2 for h3.
    assert house.opened == ["h1", "h2", "h3", "h2", "h3"]
    assert house.closed == ["h2", "h3", "h2"]
    assert house.most_alive == 2


@pytest.mark.parametrize("open_at_once", [1, 16])
def test_a_thousand_sites_in_bounded_memory(open_at_once: int) -> None:
    house = House(ballast=100_000)
    sites = [f"h{number}" for number in range(1000)]
    federation = InProcessFederation(sites, house.open_site, open_at_once=open_at_once)
    question = Message({}, {"w": np.zeros(2_500, np.float32)})  # 10 kB there, 10 kB back
    tracemalloc.start()
    try:
        for _ in range(2):
            assert sum(1 for _ in Quorum(1000).present(federation.ask("echo", question))) == 1000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    federation.close()
    assert house.most_alive == open_at_once
    assert Counter(house.opened) == Counter(house.closed)
    assert Counter(house.asked) == dict.fromkeys(sites, 2)
    assert len(house.alive) == 0
    assert peak < open_at_once * 100_000 + 500_000  # all of them at once would take 100 MB


def test_if_a_state_cannot_be_saved_the_next_site_is_not_absent() -> None:
    house = House(failing_to_close="h1")
    replies = InProcessFederation(SITES, house.open_site, open_at_once=1).ask("echo", Message())
    assert next(replies).message is not None
    with pytest.raises(OSError, match="disk is full"):
        next(replies)
    assert house.asked == ["h1"]


def test_closing_continues_if_one_site_fails() -> None:
    house = House(failing_to_close="h2")
    federation = InProcessFederation(SITES, house.open_site)
    list(federation.ask("echo", Message()))
    with pytest.raises(OSError, match="disk is full"):
        federation.close()
    assert sorted(house.closed) == ["h1", "h2", "h3"]
    federation.close()
    assert len(house.closed) == 3


def test_only_sites_of_the_study_are_asked_and_each_once() -> None:
    house = House()
    federation = InProcessFederation(SITES, house.open_site)
    with pytest.raises(FederationError, match=r"^h9 is not a site of this study$"):
        federation.ask("echo", Message(), to=["h1", "h9"])
    with pytest.raises(FederationError, match="twice"):
        federation.ask("echo", Message(), to=["h1", "h1"])
    with pytest.raises(FederationError, match="twice"):
        InProcessFederation(["h1", "h1"], house.open_site)
    with pytest.raises(FederationError, match="open_at_once is 0"):
        InProcessFederation(SITES, house.open_site, open_at_once=0)
    assert house.opened == []


class PoolWorker:
    """One of several workers for several sites; records its steps and the number of concurrent answers."""

    def __init__(self, step: Callable[[str], bytes] | None = None, *, failing_to_close: bool = False) -> None:
        self._step, self._failing_to_close = step or (lambda site: encode(Message({"site": site}))), failing_to_close
        self.asked: list[tuple[str, int]] = []
        self.closed = 0

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        self.asked.append((step, round_number))
        return self._step(step.partition("/")[0])

    def close(self) -> None:
        self.closed += 1
        if self._failing_to_close:
            raise OSError("the disk is full")


FIVE = ("h1", "h2", "h3", "h4", "h5")


def test_a_pool_answers_in_the_order_of_asking() -> None:
    def slow(site: str) -> bytes:
        time.sleep(0.02)
        return encode(Message({"site": site}))

    federation = WorkerPoolFederation(FIVE, [PoolWorker(slow), PoolWorker()])
    for order in (FIVE, FIVE[::-1], ("h4", "h1", "h2")):
        replies = list(federation.ask("train", Message(), to=order))
        assert [reply.site for reply in replies] == list(order)
        assert [reply.message.values["site"] for reply in replies if reply.message] == list(order)
    assert list(federation.ask("train", Message(), to=[])) == []


def test_a_site_always_has_the_same_worker() -> None:
    first, second = PoolWorker(), PoolWorker()
    federation = WorkerPoolFederation(FIVE, [first, second])
    list(federation.ask("train", Message({"round": 1})))
    list(federation.ask("score", Message({"round": 2}), to=["h5", "h2", "h3"]))
    assert first.asked == [("h1/train", 1), ("h3/train", 1), ("h5/train", 1), ("h5/score", 2), ("h3/score", 2)]
    assert second.asked == [("h2/train", 1), ("h4/train", 1), ("h2/score", 2)]


def test_the_workers_of_a_pool_run_in_parallel() -> None:
    # Each waits for the other: one after the other, neither would ever answer.
    both = threading.Barrier(2, timeout=60)

    def meet(site: str) -> bytes:
        both.wait()
        return encode(Message())

    replies = list(WorkerPoolFederation(SITES[:2], [PoolWorker(meet), PoolWorker(meet)]).ask("train", Message()))
    assert [reply.absence for reply in replies] == [None, None]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_n_workers_hold_at_most_2n_replies_besides_the_consumed_one(count: int) -> None:
    workers = [PoolWorker() for _ in range(count)]
    sites = [f"h{number}" for number in range(40)]
    most = 0

    def ahead() -> int:
        return sum(len(worker.asked) for worker in workers) - taken

    for taken, _ in enumerate(WorkerPoolFederation(sites, workers).ask("train", Message()), start=1):
        if taken < 9:
            assert eventually(lambda: ahead() >= count)
            time.sleep(0.02)  # long enough for workers that nobody holds back to run far ahead
        most = max(most, ahead())
    assert most <= 2 * count


def test_traffic_of_a_pool_is_the_true_number_of_bytes() -> None:
    question = Message({"round": 1}, {"w": np.arange(10, dtype=np.float32)})
    for reply in WorkerPoolFederation(SITES, [PoolWorker(), PoolWorker()]).ask("echo", question):
        assert (reply.traffic.down, reply.traffic.up) == (len(encode(question)), len(encode(Message({"site": "h1"}))))


def test_an_error_at_one_site_of_a_pool_is_its_absence(caplog: pytest.LogCaptureFixture) -> None:
    def fail_at_h1(site: str) -> bytes:
        if site == "h1":
            raise ValueError("Mrs Marker")
        return encode(Message())

    def garble(site: str) -> bytes:
        return b"no message"

    replies = {
        r.site: r for r in WorkerPoolFederation(SITES, [PoolWorker(fail_at_h1), PoolWorker(garble)]).ask("s", Message())
    }
    assert {site: reply.absence for site, reply in replies.items()} == {
        "h1": Absence.FAILED,
        "h2": Absence.FAILED,
        "h3": None,
    }
    assert replies["h1"].code == "ValueError"
    assert "site=h1 step=s failed: ValueError at test_in_process.py:" in caplog.text
    assert "Marker" not in caplog.text + repr(replies)


def test_closing_a_pool_closes_all_workers_even_if_one_fails() -> None:
    workers = [PoolWorker(), PoolWorker(failing_to_close=True), PoolWorker()]
    with pytest.raises(OSError, match="disk is full"):
        WorkerPoolFederation(SITES, workers).close()
    assert [worker.closed for worker in workers] == [1, 1, 1]


def test_a_pool_has_workers_and_asks_only_sites_of_the_study() -> None:
    with pytest.raises(FederationError, match=r"^a pool needs at least one worker$"):
        WorkerPoolFederation(SITES, [])
    federation = WorkerPoolFederation(SITES, [PoolWorker()])
    assert federation.sites == SITES
    with pytest.raises(FederationError, match=r"^h9 is not a site of this study$"):
        federation.ask("train", Message(), to=["h9"])
