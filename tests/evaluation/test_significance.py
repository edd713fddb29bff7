from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from wardround.errors import UsageError
from wardround.evaluation import significance
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.significance import (
    Average,
    Interval,
    Measure,
    intervals,
    paired_difference,
    sign_flip_p_value,
)

HIT, MISS, WRONG = SpanCounts(1, 0, 0), SpanCounts(0, 0, 1), SpanCounts(0, 1, 1)
ALL_MEASURES = [
    Measure(score, over)
    for score in ("precision", "recall", "f1")
    for over in (Average.MICRO, Average.MACRO, "ADE", "Drug")
]


def random_documents(count: int, seed: int) -> list[TypedCounts]:
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, 5, size=(count, 2, 3)).tolist()
    return [TypedCounts({"ADE": SpanCounts(*ade), "Drug": SpanCounts(*drug)}) for ade, drug in drawn]


def test_equal_documents_give_an_interval_of_zero_width() -> None:
    documents = [TypedCounts({"Drug": SpanCounts(3, 1, 2)})] * 20
    (found,) = intervals(documents, [Measure("recall")])
    assert found == Interval(pytest.approx(0.6), pytest.approx(0.6), pytest.approx(0.6), 0.95)  # type: ignore[arg-type]


def test_two_documents_by_hand() -> None:
    # Drawing two of {hit, miss}: recall is 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    documents = [TypedCounts({"Drug": HIT}), TypedCounts({"Drug": MISS})]
    (wide,) = intervals(documents, [Measure("recall")], resamples=4000)
    assert (wide.estimate, wide.low, wide.high) == (0.5, 0.0, 1.0)
    (narrow,) = intervals(documents, [Measure("recall")], resamples=4000, level=0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_interval_width_matches_the_binomial() -> None:
    documents = [TypedCounts({"Drug": HIT})] * 320 + [TypedCounts({"Drug": MISS})] * 80
    (found,) = intervals(documents, [Measure("recall")], resamples=4000)
    half = 1.96 * sqrt(0.8 * 0.2 / 400)
    assert found.high - found.estimate == pytest.approx(half, rel=0.1)
    assert found.estimate - found.low == pytest.approx(half, rel=0.1)


def test_estimates_equal_the_scores_of_the_sum() -> None:
    documents = random_documents(50, seed=1)
    total = sum(documents, TypedCounts())
    for measure, found in zip(ALL_MEASURES, intervals(documents, ALL_MEASURES, resamples=200), strict=True):
        source = {Average.MICRO: total.micro, Average.MACRO: total.macro}
        expected = getattr(source[measure.over] if measure.over in source else total[str(measure.over)], measure.score)
        assert found.estimate == pytest.approx(expected)
        assert found.low < found.estimate < found.high


def test_macro_leaves_out_types_that_were_not_drawn() -> None:
    # Each type has one perfect document, so every draw scores 1 for any types it contains.
    documents = [TypedCounts({"ADE": HIT}), TypedCounts({"Drug": HIT})]
    (found,) = intervals(documents, [Measure("f1", Average.MACRO)], resamples=50)
    assert (found.low, found.high) == (1.0, 1.0)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = random_documents(30, seed=2)
    whole = intervals(documents, ALL_MEASURES, resamples=100, seed=5)
    monkeypatch.setattr(significance, "_CHUNK", 7 * 30)
    assert intervals(documents, ALL_MEASURES, resamples=100, seed=5) == whole
    assert intervals(documents, ALL_MEASURES, resamples=100, seed=6) != whole


def test_a_system_is_not_better_than_itself() -> None:
    documents = random_documents(40, seed=4)
    found = paired_difference(documents, documents, Measure())
    assert (found.estimate, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_better_everywhere_has_the_smallest_p_value() -> None:
    good, bad = [TypedCounts({"Drug": HIT})] * 10, [TypedCounts({"Drug": WRONG})] * 10
    better = paired_difference(good, bad, Measure(), resamples=999)
    assert (better.estimate, better.low, better.high) == (1.0, 1.0, 1.0)
    assert better.p_value == pytest.approx(2 / 1000)
    assert paired_difference(bad, good, Measure(), resamples=999).p_value == pytest.approx(2 / 1000)


def test_pairing_by_hand() -> None:
    # Two documents, the first system better on one of them: the difference in recall is 0, 1/2, 1 with chances
    # 1/4, 1/2, 1/4; never below zero, so a quarter of the draws lies at or below and p is about one half.
    first = [TypedCounts({"Drug": HIT}), TypedCounts({"Drug": MISS})]
    second = [TypedCounts({"Drug": MISS}), TypedCounts({"Drug": MISS})]
    found = paired_difference(first, second, Measure("recall"), resamples=4000)
    assert found.estimate == 0.5
    assert found.p_value == pytest.approx(0.5, abs=0.05)


def test_systems_may_predict_different_types() -> None:
    first = [TypedCounts({"Drug": HIT})]
    second = [TypedCounts({"ADE": SpanCounts(0, 1, 0), "Drug": HIT})]
    assert paired_difference(first, second, Measure("precision"), resamples=10).estimate == pytest.approx(0.5)


def test_invalid_arguments_are_refused() -> None:
    one, other = [TypedCounts({"Drug": HIT})], [TypedCounts({"ADE": MISS})]
    with pytest.raises(UsageError, match="at least one document"):
        intervals([], [Measure()])
    with pytest.raises(UsageError, match="resamples=0"):
        intervals(one, [Measure()], resamples=0)
    with pytest.raises(UsageError, match="between 0 and 1"):
        intervals(one, [Measure()], level=95)
    with pytest.raises(UsageError, match="'Dose' was scored; types are Drug"):
        intervals(one, [Measure("f1", "Dose")])
    with pytest.raises(UsageError, match="1 and 2"):
        paired_difference(one, one * 2, Measure())
    with pytest.raises(UsageError, match=r"different gold mentions in document 1$"):
        paired_difference(one, other, Measure())


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0], 1.0),  # both signs are equally far from zero
        ([1.0, 1.0], 0.5),  # ++ and --, out of four
        ([1.0, 1.0, 1.0], 0.25),
        ([1.0, 2.0, -1.0], 0.75),  # |2| or more: all but the two whose sum is 0
        ([0.1, 0.2, 0.3], 0.25),  # summed in another order, the total is slightly smaller
        ([0.0, 0.0], 1.0),
    ],
)
def test_sign_flip_p_values_worked_by_hand(differences: list[float], p: float) -> None:
    assert sign_flip_p_value(differences) == p


def test_signs_of_many_pairs_are_sampled_reproducibly() -> None:
    assert sign_flip_p_value([1.0] * 30) == 1 / 20_001
    mixed = [1.0, -1.0] * 10
    assert sign_flip_p_value(mixed) == sign_flip_p_value(mixed) == 1.0


def test_sign_flip_test_refuses_an_empty_list() -> None:
    with pytest.raises(UsageError):
        sign_flip_p_value([])
