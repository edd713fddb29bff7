from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wardround.text.pieces import lay_pieces
from wardround.text.windows import Window


def test_one_window() -> None:
    layout = lay_pieces([2, 1, 3], limit=10, overlap=2)
    assert layout.windows == (Window(0, 3, 0, 3),)
    assert layout.first_piece == ((0, 0), (0, 2), (0, 3))


def test_each_word_is_read_in_the_window_that_owns_it() -> None:
    # 0-2 and 2-4 share word 2, which the first window owns.
    layout = lay_pieces([1, 1, 1, 2], limit=3, overlap=1)
    assert layout.windows == (Window(0, 3, 0, 3), Window(2, 4, 3, 4))
    assert layout.first_piece == ((0, 0), (0, 1), (0, 2), (1, 1))


def test_a_word_without_pieces_has_no_place() -> None:
    assert lay_pieces([1, 0, 2], limit=4, overlap=1).first_piece == ((0, 0), None, (0, 1))
    assert lay_pieces([0], limit=4, overlap=1).first_piece == (None,)
    assert lay_pieces([], limit=4, overlap=1).first_piece == ()


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(2, 9), st.data())
def test_the_place_is_where_the_word_begins(counts: list[int], limit: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, limit - 1))
    layout = lay_pieces(counts, limit=limit, overlap=overlap)
    pieces = [
        [(word, piece) for word in range(w.start, w.end) for piece in range(counts[word])] for w in layout.windows
    ]
    for word, place in enumerate(layout.first_piece):
        if place is None:
            assert counts[word] == 0
        else:
            assert pieces[place[0]][place[1]] == (word, 0)
