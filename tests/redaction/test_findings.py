from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wardround.redaction.findings import Finding, Hidden, Source, merge_findings
from wardround.text.document import Range


def finding(start: int, end: int, type_: str = "ID", source: Source = "pattern") -> Finding:
    return Finding(Range(start, end), type_, source)


def test_overlaps_become_one_of_the_longest_type() -> None:
    found = merge_findings([finding(8, 12, "DATE"), finding(0, 10, "NAME", "model")])
    assert found == [Hidden(Range(0, 12), "NAME", ("model", "pattern"))]


def test_the_model_decides_between_equally_long_findings() -> None:
    assert merge_findings([finding(0, 5, "ZIP"), finding(0, 5, "ID", "model")])[0].type == "ID"


def test_adjacent_findings_stay_separate() -> None:
    assert [h.range for h in merge_findings([finding(4, 8), finding(0, 4)])] == [(0, 4), (4, 8)]


def test_a_chain_of_overlaps_is_one_piece() -> None:
    assert [h.range for h in merge_findings([finding(0, 4), finding(3, 6), finding(5, 9)])] == [(0, 9)]


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda pair: finding(pair[0], sum(pair))))


@given(SPANS)
def test_exactly_the_found_characters_are_covered_once(findings: list[Finding]) -> None:
    pieces = [at for hidden in merge_findings(findings) for at in range(*hidden.range)]
    assert pieces == sorted({at for found in findings for at in range(*found.range)})
