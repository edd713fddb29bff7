from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.text.windows import Window, cut_windows


def test_what_fits_is_one_window() -> None:
    assert cut_windows([1, 2, 1], limit=4, overlap=2) == [Window(0, 3, 0, 3)]
    assert cut_windows([], limit=4, overlap=2) == []


def test_neighbours_meet_in_the_middle_of_what_they_share() -> None:
    # Words of one piece, six to a window, two shared: 0-5, 4-9, 8-9. Of words 4 and 5 each window takes one.
    assert cut_windows([1] * 10, limit=6, overlap=2) == [Window(0, 6, 0, 5), Window(4, 10, 5, 10)]
    assert cut_windows([1] * 11, limit=6, overlap=2) == [Window(0, 6, 0, 5), Window(4, 10, 5, 9), Window(8, 11, 9, 11)]


def test_without_overlap_windows_touch() -> None:
    assert cut_windows([2, 2, 2], limit=4, overlap=0) == [Window(0, 2, 0, 2), Window(2, 3, 2, 3)]


def test_a_giant_word_stands_alone() -> None:
    # Nothing can share a window with nine pieces, so nothing overlaps there.
    assert cut_windows([1, 1, 9, 1, 1], limit=4, overlap=2) == [
        Window(0, 2, 0, 2),
        Window(2, 3, 2, 3),
        Window(3, 5, 3, 5),
    ]


def test_the_overlap_gives_way_to_the_next_word() -> None:
    # After words 0-2 the next needs three of four pieces, so only one piece of context fits.
    assert cut_windows([1, 1, 1, 3], limit=4, overlap=3) == [Window(0, 3, 0, 3), Window(2, 4, 3, 4)]


@pytest.mark.parametrize("overlap", [-1, 4, 5])
def test_an_overlap_must_be_below_the_limit(overlap: int) -> None:
    with pytest.raises(ValueError, match=f"overlap {overlap} must lie between 0 and the limit 4"):
        cut_windows([1], limit=4, overlap=overlap)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], int, int]:
    limit = draw(st.integers(1, 12))
    sizes = st.one_of(st.integers(0, 4), st.just(limit + 5))
    return draw(st.lists(sizes, max_size=40)), limit, draw(st.integers(0, limit - 1))


@given(cases())
def test_every_word_is_owned_once_by_a_window_that_holds_it(case: tuple[list[int], int, int]) -> None:
    counts, limit, overlap = case
    windows = cut_windows(counts, limit=limit, overlap=overlap)
    owned = [word for window in windows for word in range(window.owns_from, window.owns_to)]
    assert owned == list(range(len(counts)))
    for window in windows:
        assert window.start <= window.owns_from <= window.owns_to <= window.end


@given(cases())
def test_no_window_is_over_the_limit_but_a_single_word(case: tuple[list[int], int, int]) -> None:
    counts, limit, overlap = case
    for start, end, _, _ in cut_windows(counts, limit=limit, overlap=overlap):
        assert end == start + 1 or sum(counts[start:end]) <= limit


@given(cases())
def test_neighbours_share_no_more_than_the_overlap_and_go_forward(case: tuple[list[int], int, int]) -> None:
    counts, limit, overlap = case
    windows = cut_windows(counts, limit=limit, overlap=overlap)
    for left, right in pairwise(windows):
        assert left.start < right.start <= left.end < right.end
        assert sum(counts[right.start : left.end]) <= overlap


@given(st.integers(1, 30), st.integers(2, 12), st.data())
def test_words_of_one_piece_share_exactly_the_overlap(length: int, limit: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, limit - 1))
    windows = cut_windows([1] * length, limit=limit, overlap=overlap)
    assert all(a.end - b.start == overlap for a, b in pairwise(windows))
