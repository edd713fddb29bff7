"""Limits: the connections and requests of a party, and the rate of log lines."""

from __future__ import annotations

import resource

import pytest

from wardround.secure_aggregation.keys.limits import Limits, Party, PartySlots, Throttle

H1, H2, FORGED = Party("h1", True), Party("h2", True), Party("h1", False)


class Clock:
    """A clock that the test advances."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_party_has_its_slots() -> None:
    slots = PartySlots(Limits(per_party=2))
    assert [slots.take(H1) for _ in range(3)] == [True, True, False]
    assert slots.take(H2) and slots.take(FORGED)
    slots.release(H1)
    assert [slots.take(H1) for _ in range(2)] == [True, False]


def test_unpinned_certificates_share_slots_and_do_not_use_those_of_others() -> None:
    slots = PartySlots(Limits(per_party=2, unpinned=3))
    assert [slots.take(Party(name, False)) for name in ("h1", "h1", "h1", "h2", "h3")] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert slots.take(H1) and slots.take(H2)


def test_requests_at_once_and_then_every_second() -> None:
    clock = Clock()
    slots = PartySlots(Limits(burst=3, requests_per_second=2), clock=clock)
    assert [slots.request(H1) for _ in range(4)] == [True, True, True, False]
    assert slots.request(FORGED)
    clock.now = 0.5
    assert [slots.request(H1) for _ in range(2)] == [True, False]
    clock.now = 1000
    assert [slots.request(H1) for _ in range(4)] == [True, True, True, False]


def test_a_throttle_counts_each_subject_alone() -> None:
    clock = Clock()
    throttle = Throttle(60, clock=clock)
    assert [throttle.allows(name) for name in ("", "", "h1", "h1")] == [True, False, True, False]
    clock.now = 59
    assert not throttle.allows("")
    clock.now = 60
    assert throttle.allows("")


@pytest.mark.parametrize(
    ("descriptors", "expected"), [(10_000, 512), (1024, 512), (100, 50), (20, 16), (resource.RLIM_INFINITY, 512)]
)
def test_strangers_take_at_most_half_of_the_descriptors(
    descriptors: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert Limits().most_strangers == expected
