from __future__ import annotations

import math

import pytest
from mpmath import erfc, exp, log, mp, mpf, nsum, sqrt  # type: ignore[import-untyped]

from wardround.errors import StudyError
from wardround.privacy.accounting import check_grid, epsilon_after, most_releases, noise_multiplier

RATE, DELTA = 0.15, 1e-4


def test_one_release_without_sampling_is_the_gaussian_mechanism() -> None:
    found = epsilon_after(1, sampling_rate=1.0, multiplier=2.0, delta=1e-4)

    def delta(epsilon: float) -> float:  # Balle and Wang 2018, Theorem 8, with sensitivity 1 and σ = 2
        def normal(x: float) -> float:
            return math.erfc(-x / math.sqrt(2)) / 2

        return normal(0.25 - 2 * epsilon) - math.exp(epsilon) * normal(-0.25 - 2 * epsilon)

    assert delta(found) <= 0.99e-4
    assert delta(found - 0.01) > 0.99e-4


def test_the_multiplier_is_the_smallest_that_fits() -> None:
    z = noise_multiplier(epsilon=4.0, delta=DELTA, sampling_rate=RATE, releases=100)
    spent = epsilon_after(100, sampling_rate=RATE, multiplier=z, delta=DELTA)
    assert 3.98 < spent <= 4.0
    assert epsilon_after(100, sampling_rate=RATE, multiplier=z - 0.001, delta=DELTA) > 4.0
    assert round(z, 3) == z


def test_a_smaller_budget_allows_fewer_releases() -> None:
    z = noise_multiplier(epsilon=4.0, delta=DELTA, sampling_rate=RATE, releases=100)
    common = {"sampling_rate": RATE, "multiplier": z, "delta": DELTA}
    assert most_releases(4.0, **common, up_to=100) == 100  # type: ignore[arg-type]
    half = most_releases(2.0, **common, up_to=100)  # type: ignore[arg-type]
    assert epsilon_after(half, **common) <= 2.0 < epsilon_after(half + 1, **common)
    assert most_releases(0.001, **common, up_to=100) == 0  # type: ignore[arg-type]
    assert epsilon_after(0, **common) == 0.0


def test_an_impossible_budget_is_refused() -> None:
    with pytest.raises(StudyError, match=r"epsilon 1e-05 .* needs more noise than 2000 times the clip"):
        noise_multiplier(epsilon=1e-5, delta=1e-9, sampling_rate=1.0, releases=10_000)


@pytest.mark.parametrize("deviation", [2, 4, 8, 16])
def test_the_divergence_of_discrete_from_rounded_noise_is_below_its_bound(deviation: int) -> None:
    """KL(discrete Gaussian with parameter s² ‖ Gaussian with variance s² − 1/12, rounded) ≤ 2·10⁻⁴ / s⁸."""
    mp.dps = 40
    s2 = mpf(deviation) ** 2
    t = sqrt(s2 - mpf(1) / 12)
    last = 14 * deviation
    weights = {k: exp(-(mpf(k) ** 2) / (2 * s2)) for k in range(-last, last + 1)}
    total = sum(weights.values())

    def rounded(k: int) -> mpf:
        k = abs(k)
        return (erfc((k - mpf("0.5")) / (t * sqrt(2))) - erfc((k + mpf("0.5")) / (t * sqrt(2)))) / 2

    divergence = sum(w / total * log(w / total / rounded(k)) for k, w in weights.items())
    assert 0 < divergence <= mpf("2e-4") / s2**4


@pytest.mark.parametrize(("sites", "deviation"), [(2, 1), (3, 1), (5, 1)])
def test_a_sum_of_discrete_gaussians_is_nearly_one(sites: int, deviation: int) -> None:
    """The factor between the probabilities is within exp(±10 (h − 1) exp(−π²σ²)), here with σ = 1."""
    last = 30
    one = [math.exp(-(k**2) / (2 * deviation**2)) for k in range(-last, last + 1)]
    one = [weight / sum(one) for weight in one]
    found = one
    for _ in range(sites - 1):
        longer = [0.0] * (len(found) + len(one) - 1)
        for at, left in enumerate(found):
            for other, right in enumerate(one):
                longer[at + other] += left * right
        found = longer
    middle = len(found) // 2
    whole = {k: math.exp(-(k**2) / (2 * sites * deviation**2)) for k in range(-middle, middle + 1)}
    total = sum(whole.values())
    bound = 10 * (sites - 1) * math.exp(-(math.pi**2) * deviation**2)
    for k in range(-4, 5):
        assert abs(math.log(found[middle + k] / (whole[k] / total))) <= bound


def test_a_coarse_grid_is_refused() -> None:
    check_grid(deviation=2.0**13, honest_sites=9, numbers=168_000, releases=400, epsilon=8.0, delta=1 / 4560)
    with pytest.raises(StudyError, match="the packing leaves too few bits"):
        check_grid(deviation=2.0**4, honest_sites=1, numbers=168_000, releases=400, epsilon=8.0, delta=1 / 4560)


def test_the_sum_over_all_integers_is_finite() -> None:
    # The normalising constant that the derivation uses: √(2π)·s, to within 2·exp(−2π²s²).
    assert float(nsum(lambda k: exp(-(k**2) / 8), [-mp.inf, mp.inf])) == pytest.approx(math.sqrt(8 * math.pi))
