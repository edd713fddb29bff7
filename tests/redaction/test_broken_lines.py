from __future__ import annotations

import pytest

from wardround.redaction.broken_lines import joined_texts
from wardround.text.document import Range


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("201-555-\n0110", "201-555-0110"),
        ("201-555\n-0110", "201-555-0110"),
        ("03/14/ \r\n  2061", "03/14/2061"),
        ("14.\n03.2061", "14.03.2061"),
        ("14-\nmarzo-\n2061", "14-marzo-2061"),
        ("ann@\nward.org", "ann@ward.org"),
        ("ann\n@ward.org", "ann@ward.org"),
        ("ann@ward.\norg", "ann@ward.org"),
        ("ann@ward\n.org", "ann@ward.org"),
        ("https://\nward.org", "https://ward.org"),
        ("Septem-\nber 14", "September 14"),
        ("Septem\nber 14", "September 14"),
        ("555-01\n10", "555-0110"),
    ],
)
def test_wrapped_lines_are_joined(text: str, joined: str) -> None:
    page = joined_texts(text)[0]
    assert page.view.text == joined
    assert page.view.source(Range(0, len(joined))) == (0, len(text))


@pytest.mark.parametrize(
    "text",
    ["", "one line", "Na 140\nK 4.1", "seen.\nThen 3", "a 1\n\n23", "1\n2\n3", "no\nno", "x@y.org.\nThe", "5 -\n- 6"],
)
def test_other_lines_stay(text: str) -> None:
    assert joined_texts(text) == []


@pytest.mark.parametrize(
    ("text", "type_", "spaced", "joins"),
    [
        ("03/14/20\n61", "DATE", False, True),
        ("201-555-01\n10", "PHONE", False, True),
        ("1234\n567", "IDNUM", False, True),
        ("1234\n567", "ZIP", False, False),
        ("12\n34567", "IDNUM", False, False),  # two digits may end a row of a table
        ("140\n102", "IDNUM", False, False),  # six digits in all may be two values
        ("2019\n123", "IDNUM", False, False),  # a year
        ("GB56 8816\n7774 6561", "IDNUM", True, True),
        ("120 80\n72", "IDNUM", True, False),
        ("2061-03-14\n11:34", "DATE", True, False),
        ("12345.\n60", "IDNUM", False, False),  # the end of a sentence
        ("192.168.\n0.12", "IPADDR", False, True),
    ],
)
def test_matches_that_are_likely_one_identifier(text: str, type_: str, spaced: bool, joins: bool) -> None:
    page = next(page for page in joined_texts(text) if page.spaced is spaced)
    assert page.is_one_identifier(Range(0, len(page.view.text)), type_) is joins


def test_matches_that_cross_no_break_are_ignored() -> None:
    (page,) = joined_texts("201-555-\n0110, 03/14/2061")
    at = page.view.text.index("03/14")
    assert not page.is_one_identifier(Range(at, at + 10), "DATE")
    assert not page.is_one_identifier(Range(0, 8), "PHONE")  # up to the break
    assert not page.is_one_identifier(Range(8, 12), "PHONE")  # from the break on
    assert page.is_one_identifier(Range(0, 12), "PHONE")


def test_only_what_is_near_a_break_is_read_again() -> None:
    text = f"{'a ' * 1000}555-\n0110{' b' * 1000}555-\n0110{' c' * 1000}"
    (page,) = joined_texts(text)
    assert len(page.parts) == 2
    assert all(end - start <= 401 for start, end in page.parts)
    assert sum(end - start for start, end in page.parts) < 900
