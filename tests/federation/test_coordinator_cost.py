from __future__ import annotations

from collections.abc import Iterator

import pytest

from wardround.federation import coordinator as accounts
from wardround.federation.coordinator import RoundCost
from wardround.federation.federation import Absence, Reply, Traffic
from wardround.federation.message import Message


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(accounts, "perf_counter", found)
    return found


def replies(clock: Clock) -> Iterator[Reply]:
    """Each reply takes three seconds."""
    for site in ("east", "west"):
        clock.now += 3
        yield Reply(site, Message(), Traffic(10, 20, 3.0, 2.5))
    clock.now += 1
    yield Reply("north", None, Traffic(10, 0, 1.0), Absence.LATE, "deadline")


def test_every_exchange_is_counted_by_step_and_site(clock: Clock) -> None:
    cost = RoundCost()
    assert [reply.site for reply in cost.recorded("train", replies(clock))] == ["east", "west", "north"]
    list(cost.recorded("train", replies(clock)))
    list(cost.recorded("open_sum", replies(clock)))
    assert list(cost.exchanges) == ["train", "open_sum"]
    assert cost.exchanges["train"]["east"] == Traffic(20, 40, 6.0, 5.0)
    assert cost.exchanges["train"]["north"] == Traffic(20, 0, 2.0)
    assert cost.total == Traffic(90, 120, 21.0, 15.0)


def test_waiting_for_sites_does_not_count_as_work_of_a_phase(clock: Clock) -> None:
    cost = RoundCost()
    with cost.phase("combine"):
        for _ in cost.recorded("train", replies(clock)):
            clock.now += 0.25
    assert cost.seconds == {"combine": 0.75}


def test_a_phase_within_another_is_counted_once(clock: Clock) -> None:
    cost = RoundCost()
    with cost.phase("step"):
        clock.now += 1
        with cost.phase("combine"):
            list(cost.recorded("train", replies(clock)))
            clock.now += 2
        with cost.phase("combine"):
            clock.now += 4
        clock.now += 8
    assert cost.seconds == {"combine": 6.0, "step": 9.0}


def test_the_time_of_a_failed_phase_counts(clock: Clock) -> None:
    cost = RoundCost()
    with pytest.raises(ZeroDivisionError), cost.phase("combine"):
        clock.now += 2
        raise ZeroDivisionError
    assert cost.seconds == {"combine": 2.0}
