from __future__ import annotations

import pytest

from wardround.errors import MessageError
from wardround.federation.message import Value
from wardround.federation.site_runtime import RequestPolicy

TERMS = RequestPolicy(
    rounds=4,
    constant_settings={"batch_size": 8, "clip": 5.0, "steps": 2},
    highest={"rate": 0.1, "output_rate": 0.5},
    smallest_batch=3,
)
ASKED: dict[str, Value] = {
    "round": 4,
    "batch_size": 8,
    "clip": 5.0,
    "steps": 2,
    "rate": 0.1,
    "output_rate": 0.5,
    "sizes": {"harbour": 40},
}


def refusal(values: dict[str, Value]) -> str:
    with pytest.raises(MessageError) as refused:
        TERMS.check(values)
    assert refused.value.code == "policy"
    return str(refused.value)


def test_a_request_within_the_policy_is_accepted() -> None:
    TERMS.check(ASKED)
    TERMS.check(ASKED | {"round": 1, "rate": 0.0, "output_rate": 0.025})
    TERMS.check({})  # what a step needs, it misses itself
    TERMS.check({"round": 0})


@pytest.mark.parametrize("number", [5, 999, -1])
def test_a_round_outside_the_study_is_refused(number: int) -> None:
    assert refusal(ASKED | {"round": number}) == "policy: the study has 4 rounds"


@pytest.mark.parametrize(
    ("name", "value"), [("batch_size", 1), ("batch_size", 9), ("batch_size", None), ("clip", 0.0), ("steps", 1)]
)
def test_a_setting_that_differs_from_the_study_is_refused(name: str, value: Value) -> None:
    assert refusal(ASKED | {name: value}) == f"policy: {name} is not the study's"


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate", 0.2), ("output_rate", 0.6), ("rate", -0.1), ("rate", float("nan")), ("rate", "fast"), ("rate", None)],
)
def test_a_learning_rate_outside_the_schedule_is_refused(name: str, value: Value) -> None:
    assert refusal(ASKED | {name: value}) == f"policy: {name} is outside the study's"
