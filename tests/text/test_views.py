from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wardround.text.document import Range
from wardround.text.views import Change, View, edited

VIEW = edited("a--b\u200bcﬁd", [(1, 3, ""), (4, 5, ""), (6, 7, "fi")])  # a b c f i d


def test_a_view_shows_the_changes() -> None:
    assert VIEW.text == "abcfid"


def test_each_character_maps_back() -> None:
    sources = [VIEW.source(Range(at, at + 1)) for at in range(6)]
    assert sources == [(0, 1), (3, 4), (5, 6), (6, 7), (6, 7), (7, 8)]


def test_range_includes_removed_characters_inside_but_not_around_it() -> None:
    assert VIEW.source(Range(0, 2)) == (0, 4)
    assert VIEW.source(Range(1, 2)) == (3, 4)
    assert VIEW.source(Range(1, 3)) == (3, 6)
    assert VIEW.source(Range(4, 6)) == (6, 8)


def test_is_edited() -> None:
    view = edited("0123456789", [(5, 6, "")])
    edited_ranges = [(start, end) for start in range(9) for end in (start + 2,) if view.is_edited(Range(start, end))]
    assert edited_ranges == [(3, 5), (4, 6), (5, 7)]
    assert not View("0123456789").is_edited(Range(0, 10))


def test_view_without_changes_is_the_text() -> None:
    assert edited("abc", []) == View("abc")
    assert View("abc").source(Range(1, 3)) == (1, 3)


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, list[Change]]:
    text = draw(st.text(min_size=1, max_size=30))
    bounds = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pairs = zip(bounds[::2], bounds[1::2], strict=False)
    return text, [(start, end, draw(st.text(max_size=3))) for start, end in pairs]


@given(changed())
def test_unchanged_characters_map_back_to_themselves(drawn: tuple[str, list[Change]]) -> None:
    text, changes = drawn
    view = edited(text, changes)
    shown = zip(view.shown_starts, view.shown_ends, strict=True)
    within = {at for bounds in shown for at in range(*bounds)}
    sources = [view.source(Range(at, at + 1)) for at in range(len(view.text))]
    for at, source in enumerate(sources):
        assert at in within or text[slice(*source)] == view.text[at]
    assert [source.start for source in sources] == sorted(source.start for source in sources)
    untouched = set(range(len(text))) - {at for start, end, _ in changes for at in range(start, end)}
    assert untouched <= {at for source in sources for at in range(*source)}
