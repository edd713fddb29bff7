from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wardround.federation.message import Array
from wardround.federation.site_history import SiteHistory
from wardround.federation.unit_privacy import NoisePlan, UnitPrivacy
from wardround.privacy.audit.noise import audit_noise, lower_bound
from wardround.privacy.differential_privacy import DifferentialPrivacy, noise_plan
from wardround.privacy.unit_noise import UnitNoise, rehearsal_secret


def plan_of(epsilon: float, *, honest_sites: int = 2, shared: bool = True) -> NoisePlan:
    settings = DifferentialPrivacy(epsilon=epsilon, delta=1e-5, sampling_rate=0.5)
    return noise_plan(
        settings,
        rounds=10,
        per_round=1,
        shared=shared,
        sites=3,
        honest_sites=honest_sites,
        numbers=1000,
        largest_sum=2**21,
    )


def test_without_delta_the_bound_is_the_one_of_a_binomial_test() -> None:
    """100 of 100 right: p^100 = 0.05, so p = 0.97049 and ε = ln(p / (1 − p)) = 3.493."""
    p = 0.05**0.01
    assert lower_bound(right=100, guesses=100, canaries=1000, delta=0.0) == pytest.approx(np.log(p / (1 - p)), abs=2e-4)


def test_guesses_at_chance_refute_nothing() -> None:
    assert lower_bound(right=50, guesses=100, canaries=1000, delta=1e-5) == 0.0
    assert lower_bound(right=0, guesses=100, canaries=1000, delta=1e-5) == 0.0


def test_delta_lowers_the_bound() -> None:
    """With i = 1: δ adds at most 2mδ · Pr[one fewer right] / 1 to the probability."""
    bounds = [lower_bound(right=95, guesses=100, canaries=1000, delta=delta) for delta in (0.0, 1e-5, 1e-3)]
    assert bounds == sorted(bounds, reverse=True) and bounds[0] > bounds[-1]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_noise_of_a_study_is_not_refuted_and_canaries_are_not_trivially_hidden(epsilon: float) -> None:
    found = audit_noise(plan_of(epsilon), honest_sites=2)
    assert not found.refuted and found.claimed == epsilon
    assert found.guesses == 200
    if epsilon == 4.0:  # the attack has power: it is far above chance
        assert found.measured > 0.5


def test_noise_at_each_site_is_audited_alone() -> None:
    found = audit_noise(plan_of(4.0, shared=False), honest_sites=2)
    assert 0.5 < found.measured <= 4.0


class Silent(UnitNoise):
    """A fault: noise is not added."""

    def noisy(self, sums: Mapping[str, Array]) -> dict[str, Array]:
        super().noisy(sums)
        return {name: array.astype(np.int32) for name, array in sums.items()}


def test_a_fault_that_switches_the_noise_off_is_found() -> None:
    plan = plan_of(2.0)

    def opened(number: int, folder: Path) -> UnitPrivacy:
        return Silent(plan, SiteHistory(folder), lambda: rehearsal_secret(0, str(number)))

    found = audit_noise(plan, honest_sites=2, open_noise=opened)
    assert found.right == found.guesses
    assert found.refuted and found.measured > 4.0


def test_a_fault_that_leaves_a_fifth_of_the_noise_is_found() -> None:
    """The plan claims ε = 1, and the sites add the noise of a plan with a fifth of the standard deviation."""
    claimed = plan_of(1.0)
    louder = replace(claimed, integer_clip=claimed.integer_clip * 5, bound=claimed.bound * 5)
    found = audit_noise(louder, honest_sites=2)
    assert found.refuted


def test_the_figures_on_the_page_are_those_of_the_audit() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "differential-privacy.md").read_text(encoding="utf-8")
    for epsilon in (1.0, 8.0):
        found = [audit_noise(plan_of(epsilon), honest_sites=2, canaries=5000, seed=seed).measured for seed in (0, 1)]
        assert f"| {epsilon:g} | {found[0]:.2f}, {found[1]:.2f} |" in page
