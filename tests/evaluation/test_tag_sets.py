from __future__ import annotations

import pytest

from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.tag_sets import TagSetScores, macro_f1

# F1: 2·3/(4 + 4) = 3/4; 2·1/(1 + 3) = 1/2; 0; and of Bed nothing was there, and nothing found.
COUNTS = TypedCounts(
    {
        "Drug": SpanCounts(3, 1, 1),
        "ADE": SpanCounts(1, 0, 2),
        "Disease": SpanCounts(0, 0, 4),
        "Bed": SpanCounts(0, 0, 0),
    }
)


def test_a_macro_f1_by_hand() -> None:
    assert macro_f1(COUNTS, ("Drug", "ADE")) == pytest.approx(5 / 8)
    assert macro_f1(COUNTS, ("Drug", "ADE", "Disease")) == pytest.approx(5 / 12)
    assert macro_f1(COUNTS, COUNTS) == pytest.approx(COUNTS.macro.f1) == pytest.approx(5 / 12)


def test_what_does_not_occur_has_no_f1() -> None:
    assert macro_f1(COUNTS, ("Drug", "Bed", "Dose")) == 0.75
    assert macro_f1(COUNTS, ("Bed",)) is None
    assert macro_f1(COUNTS, ()) is None
    assert macro_f1(TypedCounts({"Bed": SpanCounts(0, 2, 0)}), ("Bed",)) == 0.0  # found where there is none


def test_the_types_of_a_site_told_from_the_others() -> None:
    site = TagSetScores(COUNTS, ("Drug",), ("Drug", "ADE", "Disease", "Bed"))
    assert site.macro() == {"all": pytest.approx(5 / 12), "annotated": 0.75, "not_annotated": 0.25}
    assert [site.f1(kind) for kind in ("Drug", "ADE", "Disease", "Bed", "Dose")] == [0.75, 0.5, 0.0, None, None]


def test_what_is_not_scored_counts_nowhere() -> None:
    # A site may give counts of types that its test notes, as the study says, are not annotated with.
    site = TagSetScores(COUNTS, ("Drug",), ("Drug",))
    assert site.macro() == {"all": 0.75, "annotated": 0.75, "not_annotated": None}
    assert site.f1("ADE") is None
