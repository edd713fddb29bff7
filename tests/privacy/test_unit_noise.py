from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from wardround.errors import MessageError
from wardround.federation.site_history import Draw, SiteHistory
from wardround.federation.unit_privacy import NoisePlan
from wardround.privacy.unit_noise import UnitNoise, read_or_create_secret, rehearsal_secret

PLAN = NoisePlan(
    epsilon=4.0,
    delta=1e-4,
    sampling_rate=0.15,
    clip=0.5,
    multiplier=1.73,
    bits=10,
    integer_clip=500,
    bound=4000,
    releases=100,
    per_round=1,
    shared=True,
)
SUMS = {"a": np.zeros((2, 3), np.int64), "b": np.full(4, 9000)}


def noise(folder: Path, *, secret: bytes = bytes(32), budget: float | None = None) -> UnitNoise:
    return UnitNoise(PLAN, SiteHistory(folder), lambda: secret, budget=budget)


def question(letter: str, redraw: int = 0) -> Draw:
    return Draw(letter * 64, redraw)


def answer(source: UnitNoise, drawn: Draw) -> tuple[list[int], dict[str, list[int]]]:
    source.begin(drawn)
    sampled = source.sample(50)
    return sampled, {name: array.ravel().tolist() for name, array in source.noisy(SUMS).items()}


def test_the_same_question_gets_the_same_answer_and_any_other_gets_fresh_noise(tmp_path: Path) -> None:
    source = noise(tmp_path)
    first = answer(source, question("a"))
    assert answer(source, question("a")) == first
    others = [
        answer(source, question("b")),
        answer(source, question("a", redraw=1)),
        answer(noise(tmp_path, secret=bytes([1]) * 32), question("a")),
    ]
    for sampled, noisy in others:
        assert sampled != first[0]
        assert noisy != first[1]


def test_other_sums_get_fresh_noise(tmp_path: Path) -> None:
    """If notes change between two equal questions, the difference of the answers is not that of the sums."""
    source = noise(tmp_path)
    source.begin(question("a"))
    first = source.noisy({"a": np.zeros(200, np.int64)})["a"]
    source.begin(question("a"))
    second = source.noisy({"a": np.ones(200, np.int64)})["a"]
    assert np.abs(second - first).min() < 500 < np.abs(second - first).max()
    assert len(set((second - first).tolist())) > 100


def test_a_sum_is_limited_to_the_bound(tmp_path: Path) -> None:
    source = noise(tmp_path)
    source.begin(question("a"))
    found = source.noisy({"b": np.full(10_000, 9000)})["b"]
    assert found.dtype == np.int32
    assert found.mean() == pytest.approx(4000, abs=60)
    assert found.std() == pytest.approx(1024, abs=40)


def test_the_budget_is_permanent_and_a_round_asked_again_is_paid_again(tmp_path: Path) -> None:
    source = noise(tmp_path)
    assert source.epsilon == 0.0
    source.begin(question("a"))
    one = source.epsilon
    source.begin(question("a"))
    assert 0 < one < source.epsilon
    reopened = noise(tmp_path)
    assert reopened.epsilon == source.epsilon
    for _ in range(reopened.most - 2):
        reopened.begin(question("c"))
    with pytest.raises(MessageError, match="budget"):
        reopened.begin(question("d"))
    assert noise(tmp_path).epsilon <= 4.0
    with pytest.raises(MessageError, match="budget"):
        noise(tmp_path).begin(question("a"))


def test_a_site_may_have_a_stricter_budget_and_never_a_looser_one(tmp_path: Path) -> None:
    strict, loose = noise(tmp_path / "s", budget=1.0), noise(tmp_path / "l", budget=50.0)
    assert 0 < strict.most < noise(tmp_path / "n").most == loose.most <= PLAN.releases
    for _ in range(strict.most):
        strict.begin(question("a"))
    assert strict.epsilon <= 1.0
    with pytest.raises(MessageError, match="budget"):
        strict.begin(question("b"))


def test_nothing_is_released_that_was_not_recorded(tmp_path: Path) -> None:
    source = noise(tmp_path)
    with pytest.raises(AssertionError, match="recorded"):
        source.noisy(SUMS)
    source.begin(question("a"))
    source.noisy(SUMS)
    with pytest.raises(AssertionError, match="recorded"):
        source.noisy(SUMS)


def test_the_secret_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    first = read_or_create_secret(tmp_path / "state")
    path = tmp_path / "state" / "noise.key"
    assert len(first) == 32 and read_or_create_secret(tmp_path / "state") == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_create_secret(tmp_path / "other") != first
    path.write_bytes(b"short")
    with pytest.raises(MessageError, match=r"noise\.key is damaged"):
        read_or_create_secret(tmp_path / "state")
    assert rehearsal_secret(1, "a") != rehearsal_secret(1, "b") != rehearsal_secret(2, "b")
