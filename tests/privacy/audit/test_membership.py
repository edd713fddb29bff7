from __future__ import annotations

import numpy as np
import pytest

from wardround.privacy.audit.canaries import make_canaries
from wardround.privacy.audit.membership import area_under_curve, guess_membership


@pytest.mark.parametrize(
    ("members", "others", "expected"),
    [
        ([3.0, 4.0], [1.0, 2.0], 1.0),
        ([1.0, 2.0], [3.0, 4.0], 0.0),
        ([1.0, 3.0], [2.0], 0.5),
        ([1.0], [1.0, 0.0], 0.75),  # one tie and one below: (0.5 + 1) / 2
    ],
)
def test_the_area_under_the_curve_is_the_share_of_right_pairs(
    members: list[float], others: list[float], expected: float
) -> None:
    assert area_under_curve(np.array(members), np.array(others)) == expected


def test_scores_that_know_nothing_are_at_chance_and_those_that_know_are_above() -> None:
    random = np.random.default_rng(3)
    same = guess_membership("x", random.normal(size=200).tolist(), random.normal(size=200).tolist())
    assert same.auc.low < 0.5 < same.auc.high and not same.above_chance
    # Two normal distributions one standard deviation apart: AUC = Φ(1 / √2) = 0.760.
    apart = guess_membership("x", (random.normal(size=2000) + 1).tolist(), random.normal(size=2000).tolist())
    assert apart.auc.estimate == pytest.approx(0.760, abs=0.02) and apart.above_chance
    # Above the 99th percentile of a normal distribution: 1 − Φ(2.326 − 1) = 0.092.
    assert apart.caught == pytest.approx(0.092, abs=0.05)


def test_canaries_are_halves_of_the_same_kind_with_names_of_their_own() -> None:
    planted, kept = make_canaries(["Drug", "Disease"], 20, seed=1)
    assert len(planted) == len(kept) == 20
    names = [document.text[slice(*document.entities[0].ranges[0])] for document in (*planted, *kept)]
    assert len(set(names)) == 40 and all(len(name) == 10 and name.isalpha() for name in names)
    assert {document.entities[0].type for document in planted} == {"Drug", "Disease"}
    assert make_canaries(["Drug", "Disease"], 20, seed=1) == (planted, kept)
    assert make_canaries(["Drug"], 20, seed=2)[0] != make_canaries(["Drug"], 20, seed=1)[0]
