from __future__ import annotations

import pytest

from wardround.errors import UsageError
from wardround.evaluation.permutation import sign_flips


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0], 1.0),  # either sign is as far from zero
        ([1.0, 1.0], 0.5),  # ++ and -- of four
        ([1.0, 1.0, 1.0], 0.25),
        ([1.0, 2.0, -1.0], 0.75),  # |2| or more: all but the two whose sum is 0
        ([0.1, 0.2, 0.3], 0.25),  # whose sum, in another order, is a little less
        ([0.0, 0.0], 1.0),
    ],
)
def test_by_hand(differences: list[float], p: float) -> None:
    assert sign_flips(differences) == p


def test_of_many_pairs_signs_are_drawn_and_the_same_ones_each_time() -> None:
    assert sign_flips([1.0] * 30) == 1 / 20_001
    mixed = [1.0, -1.0] * 10
    assert sign_flips(mixed) == sign_flips(mixed) == 1.0


def test_without_a_pair_there_is_no_test() -> None:
    with pytest.raises(UsageError):
        sign_flips([])
