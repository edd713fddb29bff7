from __future__ import annotations

import pytest

from wardround.sweeps.seeds import OverSeeds, over_seeds, resampled


def test_the_lowest_and_the_highest() -> None:
    assert over_seeds([0.5, 0.75, 1.0]) == OverSeeds(0.75, 0.5, 1.0, 3)


@pytest.mark.parametrize("spread", ["range", "interval"])
def test_one_seed_has_no_spread(spread: str) -> None:
    assert over_seeds([0.5], "interval" if spread == "interval" else "range") == OverSeeds(0.5, 0.5, 0.5, 1)


def test_an_interval_of_the_mean() -> None:
    """Of two seeds each mean of two draws is 0, 1/2 or 1, the ends with a chance of a quarter: far above 2.5%."""
    assert over_seeds([0.0, 1.0], "interval") == OverSeeds(0.5, 0.0, 1.0, 2)


def test_an_interval_leaves_out_what_is_rare() -> None:
    """Six draws that are all the same seed have a chance of one in 46,656 each."""
    low, high = resampled(lambda drawn: float(len(set(drawn))), 6)
    assert 2.0 <= low < high <= 6.0
    assert resampled(lambda drawn: 3.0, 6) == (3.0, 3.0)
