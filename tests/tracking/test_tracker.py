from __future__ import annotations

from typing import Any

import pytest

from wardround.tracking.tracker import Points, points_of


def test_a_round() -> None:
    event = {
        "time": 5.0,
        "event": "round",
        "round": 3,
        "loss": 0.5,
        "answered": 2,
        "absent": [["a", "late", "deadline"], ["a", "failed", "shapes"], ["b", "late", "deadline"]],
        "clipped": 7,
        "figures": {"tags/agreement": 0.25},
        "down": 40,
        "up": 20,
        "seconds": 1.5,
        "exchanges": {"give": {"a": [1, 2, 3.0, 4.0]}},
    }
    assert points_of(event) == Points(
        3,
        5.0,
        {
            "loss": 0.5,
            "bytes/up": 20.0,
            "bytes/down": 40.0,
            "seconds": 1.5,
            "sites/answered": 2.0,
            "clipped": 7.0,
            "sites/absent": 2.0,
            "figures/tags/agreement": 0.25,
        },
    )


def test_a_scoring() -> None:
    event = {"time": 5.0, "event": "scored", "round": 3, "f1": {"harbour": 0.5}, "mean_f1": 0.5, "counts": {}}
    assert points_of(event) == Points(3, 5.0, {"f1/mean": 0.5, "f1/harbour": 0.5})


def test_an_epoch() -> None:
    event = {"time": 5.0, "event": "epoch", "epoch": 4, "loss": 0.5, "dev_f1": 0.25, "best": True, "seconds": 2.0}
    assert points_of(event) == Points(4, 5.0, {"loss": 0.5, "f1/dev": 0.25, "seconds": 2.0})


def test_the_end_of_a_study_and_of_a_training() -> None:
    study = {"time": 5.0, "event": "finished", "rounds": 9, "best_round": 6, "f1": {"harbour": 0.75}}
    assert points_of(study) == Points(9, 5.0, {"test_f1/harbour": 0.75})
    training = {"time": 5.0, "event": "finished", "strict_f1": 0.5, "relaxed_f1": 0.75}
    assert points_of(training, last=40) == Points(40, 5.0, {"test/strict_f1": 0.5, "test/relaxed_f1": 0.75})


@pytest.mark.parametrize("kind", ["started", "resumed", "absent", "asked", "round_failed", "unheard-of"])
def test_other_events_have_no_points(kind: str) -> None:
    assert points_of({"time": 5.0, "event": kind, "round": 3, "loss": 0.5, "site": "harbour"}) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "0.5", True])
def test_values_that_are_not_numbers_are_left_out(value: Any) -> None:
    points = points_of({"time": 5.0, "event": "epoch", "epoch": 1, "loss": value, "dev_f1": 0.5})
    assert points == Points(1, 5.0, {"f1/dev": 0.5})
