from __future__ import annotations

import math
from typing import Any

import pytest

from wardround.errors import StudyError
from wardround.privacy.accounting import epsilon_after
from wardround.privacy.differential_privacy import DifferentiallyPrivate, DifferentialPrivacy, noise_plan
from wardround.secure_aggregation.mechanisms import Masked, Plain, Sealed, SealedMasked

SETTINGS = DifferentialPrivacy(epsilon=8.0, delta=1 / 4560)
STUDY: dict[str, Any] = {
    "rounds": 200,
    "per_round": 1,
    "shared": True,
    "sites": 10,
    "honest_sites": 9,
    "numbers": 75_653,
    "largest_sum": 2**21,
}


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("largest_sum", [2**21, 2**30])
def test_honest_sites_together_carry_the_noise_and_everything_fits(epsilon: float, largest_sum: int) -> None:
    settings = DifferentialPrivacy(epsilon=epsilon, delta=1 / 4560)
    plan = noise_plan(settings, **(STUDY | {"largest_sum": largest_sum}))
    of_honest = math.sqrt(9) * 2**plan.bits
    assert of_honest >= plan.multiplier * plan.integer_clip  # z times the sensitivity
    assert of_honest < plan.multiplier * (plan.integer_clip + 1) + 1e-3
    assert 10 * plan.bound + 10 * math.sqrt(10) * 2**plan.bits <= largest_sum
    assert plan.bound + 10 * 2**plan.bits < 2**24
    spent = epsilon_after(200, sampling_rate=0.15, multiplier=plan.multiplier, delta=settings.delta)
    assert 0.98 * epsilon < spent <= epsilon
    assert plan.unit * plan.integer_clip == settings.clip


def test_where_every_site_adds_all_noise_the_sum_does_not_limit_it() -> None:
    plan = noise_plan(SETTINGS, **(STUDY | {"shared": False, "per_round": 4, "largest_sum": 0}))
    assert 2**plan.bits >= plan.multiplier * plan.integer_clip
    assert plan.releases == 800


def test_a_packing_with_too_few_bits_is_refused() -> None:
    with pytest.raises(StudyError, match=r"an update of 75,653 numbers is too large for the bits of this packing"):
        noise_plan(DifferentialPrivacy(epsilon=1.0, delta=1 / 4560), **(STUDY | {"largest_sum": 2**14}))
    with pytest.raises(StudyError, match="too large for the bits"):
        noise_plan(SETTINGS, **(STUDY | {"largest_sum": 10}))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0; it must be above zero"),
        ({"clip": -1.0}, "clip is -1.0; it must be above zero"),
        ({"delta": 1.0}, "delta is 1.0; it must be a probability"),
        ({"sampling_rate": 0.0}, "sampling_rate is 0.0; it must be a probability above 0"),
        ({"sampling_rate": 1.5}, "sampling_rate is 1.5"),
        ({"honest_sites": -1}, "honest_sites is -1"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, Any], expected: str) -> None:
    with pytest.raises(StudyError, match=f"^{expected}"):
        DifferentialPrivacy(**({"epsilon": 8.0, "delta": 1e-4} | setting))


def test_only_masks_let_sites_share_the_noise() -> None:
    assert SETTINGS.honest_among(10, masks=True) == 9
    assert SETTINGS.honest_among(10, masks=False) == 1
    assert SETTINGS.honest_among(1, masks=True) == 1
    careful = DifferentialPrivacy(epsilon=8.0, delta=1e-4, honest_sites=5)
    assert (careful.honest_among(10, masks=True), careful.honest_among(4, masks=True)) == (5, 3)


@pytest.mark.parametrize("inner", [Plain(), Masked(), Sealed(), SealedMasked()])
def test_it_declares_what_the_wrapped_mechanism_declares_and_the_promise(inner: Any) -> None:
    wrapped = DifferentiallyPrivate(inner, SETTINGS)
    for text in ("updates_readable_by", "predictions_readable_by", "summary", "predictions_summary", "report"):
        assert getattr(wrapped, text).startswith(getattr(inner, text))
        assert "8, 0.000219298" in getattr(wrapped, text)
    assert "each sentence of your training notes" in wrapped.updates_readable_by
    for trait in ("protects", "seals", "masks", "minimum_sites", "coordinator_reads_update", "coordinator_reads_sum"):
        assert getattr(wrapped, trait) == getattr(inner, trait)
    assert wrapped.packages[-2:] == ("cryptography", "dp_accounting")
    for comes_back in (False, True):
        assert wrapped.steps(mean_comes_back=comes_back) == inner.steps(mean_comes_back=comes_back)


def test_approximate_sums_are_refused() -> None:
    wrapped = DifferentiallyPrivate(Sealed(), SETTINGS)
    common: dict[str, Any] = {"packing": "standard", "mean_comes_back": False, "algorithm": "fedner"}
    assert wrapped.refusal(scheme="ckks", **common).startswith("differential_privacy adds integers")
    assert wrapped.refusal(scheme="bfv", **common) == ""
