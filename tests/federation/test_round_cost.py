from __future__ import annotations

from collections.abc import Iterator

import pytest

from wardround.federation import round_cost as accounts
from wardround.federation.federation import Absence, Reply, Traffic
from wardround.federation.message import Message
from wardround.federation.round_cost import RoundCost


class Clock:
    """Goes on only when it is told to."""

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
    """Three seconds each."""
    for site in ("east", "west"):
        clock.now += 3
        yield Reply(site, Message(), Traffic(10, 20, 3.0, 2.5))
    clock.now += 1
    yield Reply("north", None, Traffic(10, 0, 1.0), Absence.LATE, "deadline")


def test_every_exchange_is_counted_by_step_and_site(clock: Clock) -> None:
    account = RoundCost()
    assert [reply.site for reply in account.heard("train", replies(clock))] == ["east", "west", "north"]
    list(account.heard("train", replies(clock)))
    list(account.heard("open_sum", replies(clock)))
    assert list(account.exchanges) == ["train", "open_sum"]
    assert account.exchanges["train"]["east"] == Traffic(20, 40, 6.0, 5.0)
    assert account.exchanges["train"]["north"] == Traffic(20, 0, 2.0)
    assert account.total == Traffic(90, 120, 21.0, 15.0)


def test_waiting_for_sites_is_no_work_of_a_phase(clock: Clock) -> None:
    account = RoundCost()
    with account.phase("combine"):
        for _ in account.heard("train", replies(clock)):
            clock.now += 0.25
    assert account.seconds == {"combine": 0.75}


def test_a_phase_within_another_is_counted_once(clock: Clock) -> None:
    account = RoundCost()
    with account.phase("step"):
        clock.now += 1
        with account.phase("combine"):
            list(account.heard("train", replies(clock)))
            clock.now += 2
        with account.phase("combine"):
            clock.now += 4
        clock.now += 8
    assert account.seconds == {"combine": 6.0, "step": 9.0}


def test_a_phase_that_fails_took_its_time(clock: Clock) -> None:
    account = RoundCost()
    with pytest.raises(ZeroDivisionError), account.phase("combine"):
        clock.now += 2
        raise ZeroDivisionError
    assert account.seconds == {"combine": 2.0}
