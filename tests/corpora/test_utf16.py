"""Offsets in UTF-16 code units and in code points, by hand and as Python encodes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wardround.corpora.utf16 import Utf16Offsets


def test_offsets_by_hand() -> None:
    offsets = Utf16Offsets("a😀b")  # a is unit 0, the emoji units 1 and 2, b unit 3
    assert [offsets.to_utf16(point) for point in range(4)] == [0, 1, 3, 4]
    assert [offsets.to_code_points(unit) for unit in range(5)] == [0, 1, 2, 2, 3]
    assert offsets.to_code_points(99) == 99  # beyond the text: the reader reports it


@given(st.text(st.sampled_from("ab😀𝒳é"), max_size=20), st.data())
def test_offsets_are_those_of_the_encoding(text: str, data: st.DataObject) -> None:
    point = data.draw(st.integers(0, len(text)))
    units = len(text[:point].encode("utf-16-le")) // 2
    assert Utf16Offsets(text).to_utf16(point) == units
    assert Utf16Offsets(text).to_code_points(units) == point
