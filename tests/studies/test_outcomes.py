from __future__ import annotations

from typing import Any

import pytest

from wardround.errors import MessageError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.significance import Interval
from wardround.federation.message import Message
from wardround.studies.outcomes import SiteOutcome, check_counts, check_outcome, counts_in, outcome_in
from wardround.studies.study_file import SiteSection

READINGS = ("strict", "relaxed")
# F1 of Drug 2·3/(4 + 4), of ADE 2·1/(1 + 3).
STRICT = {"Drug": [3, 1, 1], "ADE": [1, 0, 2]}
ANSWER: dict[str, Any] = {
    "documents": 5,
    "strict": STRICT,
    "relaxed": {"Drug": [4, 0, 0]},
    "interval": [0.25, 0.75],
    "type_intervals": {"Drug": [0.5, 1.0]},
}


def test_counts_as_a_site_sends_them() -> None:
    assert dict(counts_in(Message(ANSWER), "strict")) == {"Drug": SpanCounts(3, 1, 1), "ADE": SpanCounts(1, 0, 2)}
    check_counts(READINGS, Message(ANSWER))
    with pytest.raises(MessageError):
        check_counts((*READINGS, "given"), Message(ANSWER))


@pytest.mark.parametrize("row", [[1, 2], [1, 2, -3], [1, 2, True], "123", 3])
def test_invalid_counts_are_refused(row: Any) -> None:
    with pytest.raises(MessageError, match="counts must be three whole numbers per type"):
        counts_in(Message({"strict": {"Drug": row}}), "strict")


def test_an_outcome_as_a_site_sends_it() -> None:
    found = outcome_in(READINGS, Message(ANSWER))
    # Four right, one wrong, three missed: 8/(5 + 7).
    assert (found.documents, found.interval) == (5, Interval(pytest.approx(8 / 12), 0.25, 0.75, 0.95))  # type: ignore[arg-type]
    assert found.main == found.counts["strict"]
    check_outcome(READINGS, Message(ANSWER))
    assert found.type_intervals == {"Drug": Interval(0.75, 0.5, 1.0)}
    assert found.as_json()["types"]["Drug"]["strict"]["interval"] == [0.5, 1.0]
    assert "interval" not in found.as_json()["types"]["ADE"]["strict"]
    for wrong in ({"interval": [0.5, 1.5]}, {"type_intervals": {"Drug": [0.5]}}, {"type_intervals": {"Drug": 3}}):
        with pytest.raises(MessageError, match="an interval must be two numbers from 0 to 1"):
            check_outcome(READINGS, Message({**ANSWER, **wrong}))
    with pytest.raises(MessageError, match="to a type that was counted"):
        check_outcome(READINGS, Message({**ANSWER, "type_intervals": {"Dose": [0.5, 1.0]}}))


def test_types_that_a_site_annotates_are_distinguished_from_others() -> None:
    found = outcome_in(READINGS, Message(ANSWER)).of(SiteSection(types=("Drug",), scored=("Drug", "ADE", "Dose")))
    assert (found.annotated, found.scored) == (("Drug",), ("Drug", "ADE", "Dose"))
    assert found.as_json()["macro"] == {"all": 0.625, "annotated": 0.75, "not_annotated": 0.5}
    own = outcome_in(READINGS, Message(ANSWER)).of(SiteSection(types=("Drug",)))
    assert own.as_json()["macro"] == {"all": 0.75, "annotated": 0.75, "not_annotated": None}


def test_a_site_that_names_no_types_has_no_tag_set_scores() -> None:
    found = outcome_in(READINGS, Message(ANSWER)).of(SiteSection())
    assert found.tag_set is None
    assert found.as_json().keys() == {"documents", "strict", "relaxed", "types"}


def test_the_figures_of_a_site() -> None:
    counts = {
        "strict": TypedCounts({"Drug": SpanCounts(3, 1, 1)}),
        "relaxed": TypedCounts({"Drug": SpanCounts(4, 0, 0)}),
    }
    written = SiteOutcome(counts, 5, Interval(0.75, 0.5, 1.0, 0.95)).as_json()
    assert (written["documents"], written["strict"]["f1"], written["strict"]["interval"]) == (5, 0.75, [0.5, 1.0])
    assert written["types"]["Drug"]["relaxed"]["f1"] == 1.0


def test_what_leaks_as_a_site_sends_it() -> None:
    leakage: dict[str, Any] = {
        "notes": [5, 1, 2],
        "words": [9, 1, 3],
        "characters": [40, 2, 8],
        "types": {"NAME": [6, 4, 1, 2]},
    }
    found = outcome_in(READINGS, Message({**ANSWER, "leakage": leakage}))
    assert found.leakage is not None and found.leakage.as_values() == leakage
    written = found.as_json()["leakage"]
    assert (written["exposed_notes"], written["words"]["recall"]) == (2, 0.75)
    assert written["types"]["NAME"]["recall"] == pytest.approx(4 / 6)
    for wrong in ("text", {**leakage, "words": [1, 2]}):
        with pytest.raises(MessageError):
            check_outcome(READINGS, Message({**ANSWER, "leakage": wrong}))
