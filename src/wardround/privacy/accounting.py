"""The privacy account: which (ε, δ) a number of noisy releases has, and how much noise a budget needs.

The account is that of `dp-accounting`, by privacy loss distributions: a Gaussian mechanism with noise multiplier z on a
Poisson sample with rate q, released a number of times, where neighbours differ in one unit. Only the differences
between that mechanism and ours are computed here.

Ours adds integers: each of h honest sites adds a discrete Gaussian with standard deviation σ, and the account is for a
rounded continuous one. Let s² = hσ².

1. The sum of h discrete Gaussians has nearly the distribution of one discrete Gaussian with parameter s² (Kairouz, Liu
   and Steinke 2021, Section 4): their probabilities differ by a factor within exp(±10 (h − 1) exp(−π²σ²)).
2. A discrete Gaussian with parameter s² has nearly the distribution of a Gaussian with variance s² − 1/12, rounded to
   integers: rounding adds 1/12 to a variance. The Kullback–Leibler divergence is below 2·10⁻⁴ / s⁸.
3. Rounding (integer + Gaussian) is a function of (integer + Gaussian), so what holds for the continuous mechanism holds
   for the rounded one.

Over T rounds of d numbers the divergence of step 2 adds up to T·d·2·10⁻⁴/s⁸, and by Pinsker's inequality the total
variation distance is at most √(T·d·10⁻⁴)/s⁴. A distance η turns (ε, δ) into (ε, δ + (1 + e^ε) η). One hundredth of δ is
reserved for it; `check_grid` refuses a grid for which that is not enough.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from wardround.errors import StudyError

__all__ = ["check_grid", "epsilon_after", "most_releases", "noise_multiplier"]

_RESERVED = 0.01  # share of δ for the difference between discrete and continuous noise
_INTERVAL = 1e-3  # of the discretised privacy loss; the estimate is an upper bound for any interval
_DIVERGENCE = 2e-4  # times 1/s⁸: bound of the divergence of step 2
_STEP = 1e-3  # noise multipliers are rounded up to multiples of it, so that all parties compute the same
_SMALLEST, _LARGEST = 0.2, 2000.0  # noise multipliers that are tried


@lru_cache(maxsize=64)
def _one_release(sampling_rate: float, multiplier: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        multiplier, value_discretization_interval=_INTERVAL, sampling_prob=sampling_rate
    )


@lru_cache(maxsize=4096)
def epsilon_after(releases: int, *, sampling_rate: float, multiplier: float, delta: float) -> float:
    """Return ε after a number of releases, at δ; 0 before the first."""
    if not releases:
        return 0.0
    composed = _one_release(sampling_rate, multiplier).self_compose(releases)
    return float(composed.get_epsilon_for_delta(delta * (1 - _RESERVED)))


@lru_cache(maxsize=64)
def noise_multiplier(*, epsilon: float, delta: float, sampling_rate: float, releases: int) -> float:
    """Return the smallest noise multiplier z, up to rounding, with which so many releases are (ε, δ)-private."""

    def fits(steps: int) -> bool:
        return epsilon_after(releases, sampling_rate=sampling_rate, multiplier=steps * _STEP, delta=delta) <= epsilon

    low, high = round(_SMALLEST / _STEP), round(1.0 / _STEP)
    while not fits(high):
        low, high = high, 2 * high
        if high > _LARGEST / _STEP:
            raise StudyError(
                f"[privacy.differential_privacy] epsilon {epsilon:g} with delta {delta:g} needs more noise than "
                f"{_LARGEST:g} times the clip for {releases:,} releases; ask for fewer rounds or a lower sampling_rate"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return round(high * _STEP, 6)


@lru_cache(maxsize=64)
def most_releases(budget: float, *, sampling_rate: float, multiplier: float, delta: float, up_to: int) -> int:
    """Return how many releases a budget ε allows, at most `up_to`."""

    def spent(releases: int) -> float:
        return epsilon_after(releases, sampling_rate=sampling_rate, multiplier=multiplier, delta=delta)

    if spent(up_to) <= budget:
        return up_to
    low, high = 0, up_to
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) <= budget else (low, middle)
    return low


def check_grid(
    *, deviation: float, honest_sites: int, numbers: int, releases: int, epsilon: float, delta: float
) -> None:
    """Raise a `StudyError` if integers are so coarse that the reserved share of δ does not cover the difference.

    `deviation` is the standard deviation of one site's noise, in integers; `numbers` are those of one release.
    """
    deviation_of_sum = deviation * math.sqrt(honest_sites)
    distance = math.sqrt(numbers * releases * _DIVERGENCE / 2) / deviation_of_sum**4
    # Of the sums of discrete Gaussians: a factor within 1 ± x changes a probability by at most x.
    distance += numbers * releases * 10 * (honest_sites - 1) * math.exp(-min(700.0, math.pi**2 * deviation**2))
    if (1 + math.exp(min(epsilon, 700.0))) * distance > _RESERVED * delta:
        raise StudyError(
            f"[privacy.differential_privacy] epsilon {epsilon:g}: the packing leaves too few bits for noise that is as "
            "good as Gaussian noise; use packing standard, fewer sites, or a smaller epsilon"
        )
