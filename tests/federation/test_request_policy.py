from __future__ import annotations

import pytest

from wardround.errors import MessageError
from wardround.federation.message import Value
from wardround.federation.request_policy import RequestPolicy, filled_up

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
    assert refused.value.code == "terms"
    return str(refused.value)


def test_a_question_within_the_terms_passes() -> None:
    TERMS.check(ASKED)
    TERMS.check(ASKED | {"round": 1, "rate": 0.0, "output_rate": 0.025})
    TERMS.check({})  # what a step needs, it misses itself
    TERMS.check({"round": 0})


@pytest.mark.parametrize("number", [5, 999, -1])
def test_a_round_that_the_study_does_not_have(number: int) -> None:
    assert refusal(ASKED | {"round": number}) == "terms: the study has 4 rounds"


@pytest.mark.parametrize(
    ("name", "value"), [("batch_size", 1), ("batch_size", 9), ("batch_size", None), ("clip", 0.0), ("steps", 1)]
)
def test_a_setting_that_is_not_the_studys(name: str, value: Value) -> None:
    assert refusal(ASKED | {name: value}) == f"terms: {name} is not the study's"


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate", 0.2), ("output_rate", 0.6), ("rate", -0.1), ("rate", float("nan")), ("rate", "fast"), ("rate", None)],
)
def test_a_rate_that_no_round_has(name: str, value: Value) -> None:
    assert refusal(ASKED | {name: value}) == f"terms: {name} is outside the study's"


def test_what_is_left_is_filled_with_the_first_of_the_order() -> None:
    batches = [[4, 2, 6], [0], [5, 1, 3]]
    assert filled_up(batches, 1) == batches
    assert filled_up(batches, 3) == [[4, 2, 6], [0, 4, 2], [5, 1, 3]]
    assert batches[1] == [0]


def test_no_sentence_is_twice_in_a_batch() -> None:
    assert filled_up([[0, 3], [4, 2, 6], [5, 1, 7]], 3) == [[0, 3, 4], [4, 2, 6], [5, 1, 7]]
    assert filled_up([[1, 0]], 2) == [[1, 0]]
