from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.text.windows import Window, cut_windows, lay_out_pieces


def test_short_sentence_is_one_window() -> None:
    assert cut_windows([1, 2, 1], limit=4, overlap=2) == [Window(0, 3, 0, 3)]
    assert cut_windows([], limit=4, overlap=2) == []


def test_neighbouring_windows_own_half_of_the_shared_words() -> None:
    # Words of one piece, six in each window, two shared: 0-5, 4-9, 8-9. Each window owns one of words 4 and 5.
    assert cut_windows([1] * 10, limit=6, overlap=2) == [Window(0, 6, 0, 5), Window(4, 10, 5, 10)]
    assert cut_windows([1] * 11, limit=6, overlap=2) == [Window(0, 6, 0, 5), Window(4, 10, 5, 9), Window(8, 11, 9, 11)]


def test_without_overlap_windows_are_adjacent() -> None:
    assert cut_windows([2, 2, 2], limit=4, overlap=0) == [Window(0, 2, 0, 2), Window(2, 3, 2, 3)]


def test_very_long_word_has_its_own_window() -> None:
    # No other word fits into a window with nine pieces, so there is no overlap.
    assert cut_windows([1, 1, 9, 1, 1], limit=4, overlap=2) == [
        Window(0, 2, 0, 2),
        Window(2, 3, 2, 3),
        Window(3, 5, 3, 5),
    ]


def test_overlap_shrinks_so_that_the_next_word_fits() -> None:
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
def test_every_word_is_owned_by_exactly_one_window_that_contains_it(case: tuple[list[int], int, int]) -> None:
    counts, limit, overlap = case
    windows = cut_windows(counts, limit=limit, overlap=overlap)
    owned = [word for window in windows for word in range(window.owns_from, window.owns_to)]
    assert owned == list(range(len(counts)))
    for window in windows:
        assert window.start <= window.owns_from <= window.owns_to <= window.end


@given(cases())
def test_only_a_single_word_may_exceed_the_limit(case: tuple[list[int], int, int]) -> None:
    counts, limit, overlap = case
    for start, end, _, _ in cut_windows(counts, limit=limit, overlap=overlap):
        assert end == start + 1 or sum(counts[start:end]) <= limit


@given(cases())
def test_neighbouring_windows_share_at_most_the_overlap_and_move_forward(case: tuple[list[int], int, int]) -> None:
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


def test_one_window() -> None:
    layout = lay_out_pieces([2, 1, 3], limit=10, overlap=2)
    assert layout.windows == (Window(0, 3, 0, 3),)
    assert layout.first_piece == ((0, 0), (0, 2), (0, 3))


def test_first_piece_is_in_the_window_that_owns_the_word() -> None:
    # 0-2 and 2-4 share word 2, which the first window owns.
    layout = lay_out_pieces([1, 1, 1, 2], limit=3, overlap=1)
    assert layout.windows == (Window(0, 3, 0, 3), Window(2, 4, 3, 4))
    assert layout.first_piece == ((0, 0), (0, 1), (0, 2), (1, 1))


def test_word_without_pieces_has_no_position() -> None:
    assert lay_out_pieces([1, 0, 2], limit=4, overlap=1).first_piece == ((0, 0), None, (0, 1))
    assert lay_out_pieces([0], limit=4, overlap=1).first_piece == (None,)
    assert lay_out_pieces([], limit=4, overlap=1).first_piece == ()


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(2, 9), st.data())
def test_position_is_that_of_the_first_piece(counts: list[int], limit: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, limit - 1))
    layout = lay_out_pieces(counts, limit=limit, overlap=overlap)
    pieces = [
        [(word, piece) for word in range(w.start, w.end) for piece in range(counts[word])] for w in layout.windows
    ]
    for word, place in enumerate(layout.first_piece):
        if place is None:
            assert counts[word] == 0
        else:
            assert pieces[place[0]][place[1]] == (word, 0)
