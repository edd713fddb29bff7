from __future__ import annotations

import pytest

from wardround.evaluation.counts import SpanCounts, TagSetScores, TypedCounts, macro_f1


def test_scores_of_counts() -> None:
    counts = SpanCounts(tp=3, fp=1, fn=2)
    assert (counts.predicted, counts.gold) == (4, 5)
    assert counts.precision == pytest.approx(0.75)
    assert counts.recall == pytest.approx(0.6)
    assert counts.f1 == pytest.approx(2 * 0.75 * 0.6 / 1.35)  # 0.9 / 1.35 = 2/3
    assert counts.f1 == pytest.approx(2 / 3)


def test_undefined_scores_are_zero() -> None:
    nothing = SpanCounts()
    assert (nothing.precision, nothing.recall, nothing.f1) == (0.0, 0.0, 0.0)
    only_missed = SpanCounts(fn=2)
    assert (only_missed.precision, only_missed.recall, only_missed.f1) == (0.0, 0.0, 0.0)


def test_counts_add_before_they_are_divided() -> None:
    total = SpanCounts(1, 0, 0) + SpanCounts(0, 1, 2)
    assert total == SpanCounts(1, 1, 2)
    assert total.f1 == pytest.approx(0.4)  # 2 / (2 + 1 + 2), where the mean of the two F1 would be 0.5


def test_typed_counts_add_by_type() -> None:
    total = TypedCounts({"Drug": SpanCounts(1, 0, 0)}) + TypedCounts(
        {"Dose": SpanCounts(0, 1, 0), "Drug": SpanCounts(2, 3, 4)}
    )
    assert total == TypedCounts({"Dose": SpanCounts(0, 1, 0), "Drug": SpanCounts(3, 3, 4)})
    assert list(total) == ["Dose", "Drug"]
    assert total != TypedCounts({"Dose": SpanCounts(0, 1, 0)})


def test_micro_and_macro() -> None:
    counts = TypedCounts({"Dose": SpanCounts(0, 1, 1), "Drug": SpanCounts(3, 1, 0), "Unseen": SpanCounts()})
    assert counts.micro == SpanCounts(3, 2, 1)
    assert counts.micro.f1 == pytest.approx(6 / 9)
    # Dose: 0, 0, 0. Drug: 3/4, 1, 6/7. Unseen occurs nowhere and is no third part of the mean.
    assert counts.macro == pytest.approx((3 / 8, 1 / 2, 3 / 7))


def test_macro_of_nothing_is_zero() -> None:
    assert TypedCounts().macro == (0.0, 0.0, 0.0)
    assert TypedCounts().micro == SpanCounts()


def test_tally() -> None:
    counts = TypedCounts.tally(gold=["A", "A", "B"], predicted=["A", "C"], correct=["A"])
    assert counts == TypedCounts({"A": SpanCounts(1, 0, 1), "B": SpanCounts(0, 0, 1), "C": SpanCounts(0, 1, 0)})


# F1: 2·3/(4 + 4) = 3/4; 2·1/(1 + 3) = 1/2; 0. Bed occurs neither in gold nor in prediction.
COUNTS = TypedCounts(
    {
        "Drug": SpanCounts(3, 1, 1),
        "ADE": SpanCounts(1, 0, 2),
        "Disease": SpanCounts(0, 0, 4),
        "Bed": SpanCounts(0, 0, 0),
    }
)


def test_macro_f1_worked_by_hand() -> None:
    assert macro_f1(COUNTS, ("Drug", "ADE")) == pytest.approx(5 / 8)
    assert macro_f1(COUNTS, ("Drug", "ADE", "Disease")) == pytest.approx(5 / 12)
    assert macro_f1(COUNTS, COUNTS) == pytest.approx(COUNTS.macro.f1) == pytest.approx(5 / 12)


def test_type_that_does_not_occur_has_no_f1() -> None:
    assert macro_f1(COUNTS, ("Drug", "Bed", "Dose")) == 0.75
    assert macro_f1(COUNTS, ("Bed",)) is None
    assert macro_f1(COUNTS, ()) is None
    assert macro_f1(TypedCounts({"Bed": SpanCounts(0, 2, 0)}), ("Bed",)) == 0.0  # only spurious predictions


def test_annotated_types_are_separated_from_the_others() -> None:
    site = TagSetScores(COUNTS, ("Drug",), ("Drug", "ADE", "Disease", "Bed"))
    assert site.macro() == {"all": pytest.approx(5 / 12), "annotated": 0.75, "not_annotated": 0.25}
    assert [site.f1(kind) for kind in ("Drug", "ADE", "Disease", "Bed", "Dose")] == [0.75, 0.5, 0.0, None, None]


def test_unscored_type_is_ignored() -> None:
    # A site may report counts of types that, according to the study, its test notes are not annotated with.
    site = TagSetScores(COUNTS, ("Drug",), ("Drug",))
    assert site.macro() == {"all": 0.75, "annotated": 0.75, "not_annotated": None}
    assert site.f1("ADE") is None
