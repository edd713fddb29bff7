from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.redaction.findings import Finding, merge_findings
from wardround.redaction.replacing import How, Redacted, Replacer, replace_hidden
from wardround.redaction.secret_key import SecretKey
from wardround.text.document import Range

TEXT = "Mr John Smith of Leeds"
FOUND = merge_findings([Finding(Range(3, 13), "NAME", "model"), Finding(Range(17, 22), "CITY", "pattern")])


def replaced(how: How, text: str = TEXT) -> Redacted:
    return Replacer(how, "en", SecretKey(b"k" * 32)).note(text, FOUND, patient="p")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (How.MASK, "Mr ██████████ of █████"),
        (How.BLOCK, "Mr █████ of █████"),
        (How.TAG, "Mr [NAME] of [CITY]"),
    ],
)
def test_worked_examples(how: How, expected: str) -> None:
    assert replaced(how).text == expected


def test_marks_lie_where_the_replacements_are() -> None:
    assert [mark.range for mark in replaced(How.TAG).marks] == [(3, 9), (13, 19)]
    assert [mark.sources for mark in replaced(How.TAG).marks] == [("model",), ("pattern",)]


def test_patients_have_different_surrogates() -> None:
    replacing = Replacer(How.SURROGATE, "en", SecretKey(b"k" * 32))
    found = merge_findings([Finding(Range(0, 10), "DATE", "model")])
    one, same, other = (replacing.note("2061-03-04", found, patient=p).text for p in ("a", "a", "b"))
    assert one == same != other


@pytest.mark.parametrize("odd", ["Ａｎｎ Ｃａｒｒ", "A\u200bnn Ca\u00adrr", "Аnn Саrr", "𝐀𝐧𝐧 𝐂𝐚𝐫𝐫", "ⒶⓃⓃ Ⓒⓐⓡⓡ"])
def test_a_name_in_an_unusual_form_is_the_same_person(odd: str) -> None:
    text = f"Ann Carr, {odd}"
    found = merge_findings(
        [Finding(Range(0, 8), "PATIENT", "model"), Finding(Range(10, len(text)), "PATIENT", "model")]
    )
    new = Replacer(How.SURROGATE, "en", SecretKey(b"k" * 32)).note(text, found, patient="p").text
    one, other = new.split(", ")
    assert one.casefold() == other.casefold()
    assert new.isascii()


FINDINGS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9), st.sampled_from(["PATIENT", "DATE", "ID", "CITY", "AGE"]))
)


@given(st.text(min_size=40, max_size=60), FINDINGS, st.sampled_from(How))
def test_only_found_text_is_replaced(text: str, spans: list[tuple[int, int, str]], how: How) -> None:
    hidden = merge_findings(Finding(Range(start, start + length), type_, "model") for start, length, type_ in spans)
    new = Replacer(how, "en", SecretKey(b"k" * 32)).note(text, hidden, patient="p")
    assert len(new.marks) == len(hidden)
    # Between the marks stands exactly what stood between the hidden pieces.
    old_ends, new_ends = [0, *(h.range.end for h in hidden)], [0, *(m.range.end for m in new.marks)]
    old_starts = [*(h.range.start for h in hidden), len(text)]
    new_starts = [*(m.range.start for m in new.marks), len(new.text)]
    for old, kept in zip(zip(old_ends, old_starts, strict=True), zip(new_ends, new_starts, strict=True), strict=True):
        assert text[slice(*old)] == new.text[slice(*kept)]
    # In the marks stands nothing of what was hidden.
    for piece, mark in zip(hidden, new.marks, strict=True):
        was, now = text[slice(*piece.range)], new.text[slice(*mark.range)]
        assert mark.type == piece.type
        assert how is How.SURROGATE or now in (f"[{piece.type}]", "█" * len(was), "█" * 5)
        assert now.casefold() != was.casefold() or not any(map(str.isalnum, was)) or set(was) == {"█"}


def test_pieces_out_of_order_are_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        replace_hidden(TEXT, FOUND[::-1], lambda piece: "x")
