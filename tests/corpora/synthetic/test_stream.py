from __future__ import annotations

from collections import Counter

from wardround.corpora.synthetic.stream import Stream, portion


def test_streams_are_equal_only_for_the_same_names() -> None:
    first, again, other = Stream(1, "a"), Stream(1, "a"), Stream(1, "b")
    numbers = [first.below(1000) for _ in range(20)]
    assert numbers == [again.below(1000) for _ in range(20)]
    assert numbers != [other.below(1000) for _ in range(20)]


def test_a_branch_does_not_change_its_stream() -> None:
    plain, branched = Stream("a"), Stream("a")
    twig = branched.branch("b")
    same = Stream("a", "b")
    assert [twig.below(1000) for _ in range(5)] == [same.below(1000) for _ in range(5)]
    assert plain.below(10**6) == branched.below(10**6)


def test_names_are_separated() -> None:
    assert portion("ab", "c") != portion("a", "bc")
    assert portion(1, "x") == portion("1", "x")


def test_numbers_stay_in_their_range() -> None:
    stream = Stream("range")
    drawn = Counter(stream.between(3, 5) for _ in range(600))
    assert sorted(drawn) == [3, 4, 5]
    assert min(drawn.values()) > 150  # 200 are expected, with a standard deviation of 11.5
    assert {stream.below(1) for _ in range(50)} == {0}


def test_chance_is_never_at_zero_and_always_at_one() -> None:
    stream = Stream("chance")
    assert not any(stream.chance(0.0) for _ in range(200))
    assert all(stream.chance(1.0) for _ in range(200))


def test_shuffled_keeps_every_item_and_changes_the_order() -> None:
    items = list(range(30))
    shuffled = Stream("shuffle").shuffled(items)
    assert sorted(shuffled) == items
    assert shuffled != items
