from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from wardround.privacy import discrete_gaussian as module
from wardround.privacy.discrete_gaussian import discrete_gaussian, uniform_sample

KEY = bytes(range(32))


@pytest.mark.parametrize("bits", [0, 1, 3])
def test_every_integer_has_its_probability(bits: int) -> None:
    drawn = discrete_gaussian(KEY, 100_000, bits=bits)
    sigma = 2**bits
    inside = range(-4 * sigma, 4 * sigma + 1)
    weights = {number: math.exp(-(number**2) / (2 * sigma**2)) for number in range(-20 * sigma, 20 * sigma + 1)}
    expected = np.array([weights[number] for number in inside]) / sum(weights.values()) * len(drawn)
    counted = Counter(drawn.tolist())
    observed = np.array([counted[number] for number in inside])
    rest = len(drawn) - observed.sum(), len(drawn) - expected.sum()
    found = chisquare([*observed, rest[0]], [*expected, rest[1]])
    assert found.pvalue > 1e-4


@pytest.mark.parametrize("bits", [6, 13, 20])
def test_the_standard_deviation_is_two_to_the_bits(bits: int) -> None:
    drawn = discrete_gaussian(KEY, 200_000, bits=bits) / 2**bits
    assert drawn.mean() == pytest.approx(0.0, abs=0.01)
    assert drawn.var() == pytest.approx(1.0, abs=0.015)  # 200,000 draws: standard error 0.003
    assert (drawn**4).mean() == pytest.approx(3.0, abs=0.15)


def test_decimal_arithmetic_decides_as_float_arithmetic_does(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = discrete_gaussian(KEY, 500, bits=5)
    monkeypatch.setattr(module, "_UNSURE", 2.0**62)  # every comparison goes to the exact way
    assert (discrete_gaussian(KEY, 500, bits=5) == quick).all()


def test_a_number_in_the_cell_of_a_bound_is_decided_with_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = int(module._scaled(module._cumulative()[1], 1))  # between k = 1 and k = 2
    below, above = [bound, 0], [bound, module._ONE - 1]

    class Given:
        def __init__(self, numbers: list[int]) -> None:
            self.numbers = numbers

        def below(self, modulus: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
            return np.array([self.numbers.pop(0) for _ in range(count)], np.uint64)

    assert module._draw_k(Given(below), 1).tolist() == [1]  # type: ignore[arg-type]
    assert module._draw_k(Given(above), 1).tolist() == [2]  # type: ignore[arg-type]
    assert module._draw_k(Given([bound - 1]), 1).tolist() == [1]  # type: ignore[arg-type]
    assert module._draw_k(Given([bound + 1]), 1).tolist() == [2]  # type: ignore[arg-type]


@given(key=st.binary(min_size=32, max_size=32), count=st.integers(0, 40))
def test_the_key_determines_the_noise(key: bytes, count: int) -> None:
    drawn = discrete_gaussian(key, count, bits=4)
    assert drawn.dtype == np.int64 and len(drawn) == count
    assert (discrete_gaussian(key, count, bits=4) == drawn).all()
    other = discrete_gaussian(bytes([key[0] ^ 1]) + key[1:], 40, bits=16)
    assert (discrete_gaussian(key, 40, bits=16) != other).any()


def test_a_poisson_sample_holds_each_unit_with_the_rate() -> None:
    drawn = uniform_sample(KEY, 100_000, 0.15)
    assert len(drawn) == pytest.approx(15_000, abs=600)  # five standard deviations
    assert drawn == sorted(set(drawn)) and drawn[-1] < 100_000
    assert uniform_sample(KEY, 10, 1.0) == list(range(10))
    assert uniform_sample(KEY, 0, 0.5) == []
