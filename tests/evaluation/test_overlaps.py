from __future__ import annotations

from itertools import product

import numpy as np

from wardround.evaluation.overlaps import Mention, find_overlaps, maximum_matching, mentions_of
from wardround.text.document import Entity, Range


def mention(*ranges: tuple[int, int], type_: str = "Drug") -> Mention:
    return Mention(tuple(Range(*r) for r in ranges), type_)


def test_mentions_are_unique_and_in_reading_order() -> None:
    entities = [
        Entity("1", "Drug", (Range(5, 9),)),
        Entity("2", "Drug", (Range(0, 3),)),
        Entity("3", "Drug", (Range(5, 9),), concepts=("C1",)),
        Entity("4", "Dose", (Range(5, 9),)),
    ]
    assert mentions_of(entities) == [mention((0, 3)), mention((5, 9), type_="Dose"), mention((5, 9))]


def test_overlaps_count_shared_characters() -> None:
    gold = [mention((0, 10)), mention((2, 4)), mention((12, 15), (20, 25))]
    predicted = [mention((3, 13)), mention((10, 12)), mention((15, 22)), mention((24, 40))]
    assert find_overlaps(gold, predicted).shared == [{0: 7, 1: 1, 2: 1}, {}, {2: 2}, {2: 1}]


def test_adjacent_mentions_share_no_character() -> None:
    assert find_overlaps([mention((0, 5))], [mention((5, 9))]).shared == [{}]


def test_overlaps_equal_comparing_all_pairs() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        gold, predicted = ([_random_mention(generator) for _ in range(6)] for _ in range(2))
        shared = find_overlaps(gold, predicted).shared
        for p, g in product(range(6), range(6)):
            common = _characters(predicted[p]) & _characters(gold[g])
            assert shared[p].get(g, 0) == len(common)


def test_matching_gives_up_a_pair_to_gain_one() -> None:
    # Left 0 may take 0 or 1, left 1 only 0. Starting from 0-0, left 1 can be matched only if left 0 moves to 1.
    assert maximum_matching([[0, 1], [0]], {0: 0}) == {0: 1, 1: 0}


def test_matching_of_a_long_chain_needs_no_recursion() -> None:
    chain = [[i, i + 1] for i in range(5000)] + [[0]]
    assert len(maximum_matching(chain, {i: i for i in range(5000)})) == 5001


def test_matching_equals_brute_force() -> None:
    generator = np.random.default_rng(5)
    for _ in range(300):
        edges = generator.random((4, 4)) < 0.4
        neighbours = [[int(right) for right in np.flatnonzero(row)] for row in edges]
        pairs = maximum_matching(neighbours, {})
        assert len(set(pairs.values())) == len(pairs)
        assert all(right in neighbours[left] for left, right in pairs.items())
        assert len(pairs) == _most_pairs(neighbours, frozenset())


def _most_pairs(neighbours: list[list[int]], taken: frozenset[int]) -> int:
    if not neighbours:
        return 0
    without = _most_pairs(neighbours[1:], taken)
    return max([without, *(1 + _most_pairs(neighbours[1:], taken | {r}) for r in neighbours[0] if r not in taken)])


def _random_mention(generator: np.random.Generator) -> Mention:
    cuts = sorted(generator.choice(30, size=4, replace=False).tolist())
    if generator.random() < 0.5:
        return mention((cuts[0], cuts[1]))
    return mention((cuts[0], cuts[1]), (cuts[2], cuts[3]))


def _characters(item: Mention) -> set[int]:
    return {c for r in item.ranges for c in range(*r)}
