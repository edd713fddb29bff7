from __future__ import annotations

import numpy as np
import pytest

from wardround.privacy.audit.recovery import recover

TOKENS = np.array([10, 20, 30, 40, 50, 60])


def test_the_names_are_those_with_the_lowest_scores() -> None:
    found, named = recover(TOKENS, np.array([0.1, 0.2, 0.9, 0.8, 0.7, 0.6]), {10, 20})
    assert (found.there, found.named, found.right) == (2, 2, 2)
    assert sorted(named) == [10, 20]


def test_it_stops_where_f1_is_highest() -> None:
    # In order: right, wrong, right, wrong, … F1 after 1, 3: 2/(1+2), 4/(3+2); after 4 it falls to 4/6.
    found, named = recover(TOKENS, np.arange(6.0), {10, 30})
    assert (found.named, found.right) == (3, 2)
    assert found.recall == 1
    assert found.precision == pytest.approx(2 / 3)
    assert named.tolist() == [10, 20, 30]


def test_half_of_the_names_must_be_right() -> None:
    found, _ = recover(TOKENS, np.arange(6.0), {30, 40})  # after two wrong ones, half are right at the fourth
    assert (found.named, found.right) == (4, 2)
    found, _ = recover(TOKENS, np.arange(6.0), {40, 50})
    assert (found.named, found.right) == (0, 0)
    assert found.recall == found.precision == 0


def test_an_infinite_score_is_never_named() -> None:
    found, named = recover(TOKENS, np.array([np.inf, 1.0, np.inf, np.inf, np.inf, np.inf]), {10, 20})
    assert named.tolist() == [20]
    assert found.recall == 0.5


def test_equal_scores_are_named_together() -> None:
    found, _ = recover(TOKENS, np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), {10})
    assert found.named == 0  # one of three is right, which is less than half


def test_chance_is_what_a_random_order_gives() -> None:
    many = np.arange(10_000)
    rare, _ = recover(many, many.astype(float), set(range(50)))
    assert rare.recall == 1
    assert rare.chance < 0.01
    common, _ = recover(many, many.astype(float), set(range(6_000)))  # more than half of all
    assert common.chance > 0.99


def test_without_tokens_there_is_nothing_to_find() -> None:
    found, _ = recover(TOKENS, np.arange(6.0), ())
    assert (found.there, found.recall, found.chance) == (0, 0, 0)
