from __future__ import annotations

import pytest

from wardround.errors import UsageError
from wardround.serving.limits import Limits, RateLimit


def test_a_minute_of_requests_may_come_at_once_and_is_refilled_evenly() -> None:
    now = 0.0
    limit = RateLimit(6, clock=lambda: now)
    assert [limit.wait("a") for _ in range(7)] == [0, 0, 0, 0, 0, 0, pytest.approx(10)]
    now = 9.0
    assert limit.wait("a") == pytest.approx(1)
    now = 10.5
    assert limit.wait("a") == 0
    assert limit.wait("b") == 0


def test_addresses_are_forgotten_in_the_order_of_their_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.serving.limits._MOST_CLIENTS", 2)
    limit = RateLimit(1, clock=lambda: 0.0)
    assert [limit.wait(address) > 0 for address in ("a", "b", "a", "c", "a", "b")] == [
        False,
        False,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("name", ["body_bytes", "text_characters", "documents", "rate", "waiting", "answer_seconds"])
def test_a_limit_is_above_zero(name: str) -> None:
    with pytest.raises(UsageError, match=f"the limit {name} is 0; it must be above zero"):
        Limits(**{name: 0})
