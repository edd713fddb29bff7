"""Fields: numbers, offsets, concept ids and what may stand in a column."""

from __future__ import annotations

import re

import pytest

from wardround.corpora.fields import (
    OFFSETS,
    check_plain,
    is_plain,
    join_concepts,
    offset_pairs,
    split_concepts,
    whole_number,
)
from wardround.errors import CorpusError


def test_concept_ids() -> None:
    assert split_concepts("a, b;c", ",;") == ("a", "b", "c")
    assert split_concepts("c|SUB|G|1|A", ",;") == ("c|SUB|G|1|A",)
    assert split_concepts("a|b", "|") == ("a", "b")
    assert split_concepts("a,b", "") == ("a,b",)
    assert split_concepts("-", ",;") == split_concepts("-1", ",;") == split_concepts("", ",;") == ()
    assert join_concepts(["a", "b"], ",;") == "a,b"
    with pytest.raises(CorpusError):
        join_concepts(["a", "b"], "")


def test_whole_numbers() -> None:
    assert [whole_number(text) for text in ("0", "12", "-1", "1.0", "", "٣", "1" * 13)] == [0, 12, *[None] * 5]


def test_offsets() -> None:
    assert offset_pairs("3 7") == [(3, 7)]
    assert offset_pairs("12 15;3 7") == [(12, 15), (3, 7)]
    faulty = ("", "3", "3 7;", "3  7", "3 7 12 15", "-3 7", "٣ 7", f"3 {'7' * 13}")
    assert [text for text in ("3 7", "12 15;3 7", *faulty) if re.fullmatch(OFFSETS, text)] == ["3 7", "12 15;3 7"]


def test_a_column_holds_neither_tabs_nor_line_ends() -> None:
    assert [text for text in ("", "a b", "a\tb", "a\n", "\ra", "\u2028") if is_plain(text)] == ["", "a b", "\u2028"]
    check_plain("the type", "a b")
    for value in ("", "a\tb"):
        with pytest.raises(CorpusError, match=r"^the type is empty or holds a tab or a line end"):
            check_plain("the type", value)
