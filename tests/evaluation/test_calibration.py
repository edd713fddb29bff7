from __future__ import annotations

import math

import numpy as np
import pytest

from wardround.evaluation.calibration import Calibration, JudgedScores, calibration_error, judge
from wardround.text.document import Document, Entity, Range, Relation


def drawn(count: int, *, seed: int, slope: float, intercept: float) -> tuple[list[float], list[bool]]:
    """Probabilities, and outcomes whose true probability is `Calibration(slope, intercept)` of them."""
    generator = np.random.default_rng(seed)
    probabilities = (1 / (1 + np.exp(-generator.normal(1.0, 2.0, count)))).tolist()
    truth = Calibration(slope, intercept)
    return probabilities, [bool(generator.random() < truth(p)) for p in probabilities]


def test_a_calibrated_probability_by_hand() -> None:
    # logit 0.8 is log 4: twice that minus log 4 is log 4 again; half of it is log 2, which is 2/3.
    assert Calibration(2.0, -math.log(4))(0.8) == pytest.approx(0.8)
    assert Calibration(0.5, 0.0)(0.8) == pytest.approx(2 / 3)
    assert Calibration()(0.3) == pytest.approx(0.3)


def test_certain_probabilities_stay_probabilities() -> None:
    for calibration in (Calibration(), Calibration(60.0, 900.0), Calibration(60.0, -900.0)):
        assert 0 <= calibration(0.0) <= calibration(1.0) <= 1


def test_the_calibration_error_by_hand() -> None:
    # Bin 0.9–1: mean 0.95, half right, gap 0.45 of two. Bin 0.2–0.3: mean 0.25, none right, gap 0.25 of one.
    assert calibration_error([0.95, 0.95, 0.25], [True, False, False]) == pytest.approx((2 * 0.45 + 0.25) / 3)
    assert calibration_error([1.0, 0.0], [True, False]) == 0.0
    assert calibration_error([], []) == 0.0


def test_the_fit_recovers_a_known_calibration() -> None:
    found = Calibration.fit(*drawn(20_000, seed=0, slope=0.5, intercept=-1.0))
    assert found is not None
    assert (found.slope, found.intercept) == (pytest.approx(0.5, abs=0.05), pytest.approx(-1.0, abs=0.05))


def test_the_fit_is_a_minimum_of_the_regularised_loss() -> None:
    probabilities, right = drawn(60, seed=1, slope=0.5, intercept=-1.0)
    found = Calibration.fit(probabilities, right)
    assert found is not None

    def loss(slope: float, intercept: float) -> float:
        calibrated = map(Calibration(slope, intercept), probabilities)
        likely = (p if outcome else 1 - p for p, outcome in zip(calibrated, right, strict=True))
        return -sum(map(math.log, likely)) + ((slope - 1) ** 2 + intercept**2) / 2

    best = loss(found.slope, found.intercept)
    for change in (0.01, -0.01):
        assert loss(found.slope + change, found.intercept) > best
        assert loss(found.slope, found.intercept + change) > best


def test_overconfident_predictions_do_not_make_the_fit_diverge() -> None:
    """Newton's method with full steps ends at a slope in the hundred thousands here."""
    probabilities = [0.999999] * 90 + [0.9] * 20 + [0.3] * 10
    right = [True] * 60 + [False] * 30 + [True] * 12 + [False] * 8 + [True] * 3 + [False] * 7
    found = Calibration.fit(probabilities, right)
    assert found is not None
    assert 0 < found.slope < 1
    assert found(0.999999) == pytest.approx(60 / 90, abs=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_every_fit_is_moderate_and_no_worse_on_its_own_predictions(seed: int) -> None:
    probabilities, right = drawn(40, seed=seed, slope=0.3, intercept=-0.5)
    if found := Calibration.fit(probabilities, right):
        assert 0 < found.slope < 3
        assert abs(found.intercept) < 3

        def brier(values: list[float]) -> float:
            return sum((p - outcome) ** 2 for p, outcome in zip(values, right, strict=True))

        assert brier(list(map(found, probabilities))) <= brier(probabilities)


def test_the_order_of_predictions_stays() -> None:
    found = Calibration.fit(*drawn(200, seed=3, slope=0.4, intercept=0.3))
    assert found is not None
    values = [found(place / 50) for place in range(51)]
    assert values == sorted(values)
    # Predictions that are right the less probable they are cannot be calibrated without reversing their order.
    probabilities = [place / 100 for place in range(100)]
    assert Calibration.fit(probabilities, [p < 0.5 for p in probabilities]) is None


def test_too_few_predictions_are_not_fitted() -> None:
    assert Calibration.fit([0.9] * 19, [True] * 10 + [False] * 9) is None
    assert Calibration.fit([0.9] * 30, [True] * 30) is None
    assert Calibration.fit([0.9] * 30, [False] * 30) is None
    assert JudgedScores([0.9] * 19, [True] * 10 + [False] * 9).fit() == {}


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        "x",
        {},
        {"slope": 1.0},
        {"slope": -1.0, "intercept": 0.0},
        {"slope": 0.0, "intercept": 0.0},
        {"slope": math.nan, "intercept": 0.0},
        {"slope": 1.0, "intercept": math.inf},
        {"slope": "1", "intercept": 0.0},
    ],
)
def test_values_that_are_no_calibration_are_ignored(values: object) -> None:
    assert Calibration.from_values(values) is None


def test_values_are_read_as_they_were_written() -> None:
    assert Calibration.from_values(Calibration(0.5, -1.0).as_values()) == Calibration(0.5, -1.0)


def test_fitted_values_say_how_much_the_error_shrank() -> None:
    values = JudgedScores(*drawn(400, seed=5, slope=0.4, intercept=-1.0)).fit()
    assert values["predictions"] == 400
    assert values["error_after"] < values["error_before"]


def test_predictions_are_judged_by_type_and_place_not_by_id() -> None:
    gold = Document(
        "n",
        "Aspirin caused rash.",
        (Entity("a", "Drug", (Range(0, 7),)), Entity("b", "ADE", (Range(15, 19),))),
        (Relation("r", "causes", "a", "b"),),
    )
    found = Document(
        "n",
        "Aspirin caused rash.",
        (
            Entity("T1", "Drug", (Range(0, 7),), score=0.9),
            Entity("T2", "ADE", (Range(8, 19),), score=0.4),  # wrong border
            Entity("T3", "ADE", (Range(15, 19),), score=None),  # without a probability
            Entity("T4", "Finding", (Range(15, 19),), score=0.3),  # nobody annotated this type
        ),
        (Relation("R1", "causes", "T1", "T3", score=0.8), Relation("R2", "causes", "T3", "T1", score=0.2)),
    )
    judged = judge([(found, gold)], {"Drug", "ADE"})
    assert judged["entities"] == JudgedScores([0.9, 0.4], [True, False])
    assert judged["relations"] == JudgedScores([0.8, 0.2], [True, False])
