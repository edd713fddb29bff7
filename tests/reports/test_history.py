from __future__ import annotations

from math import isnan

import pytest
from tests.reports.run_records import EVENTS, a_round, a_scoring

from wardround.evaluation.counts import SpanCounts
from wardround.reports.history import Absence, Cost, History, add_costs


def test_rounds_and_scorings_in_order() -> None:
    history = History.of(EVENTS)
    assert [record.number for record in history.rounds] == [1, 2, 3]
    assert [(s.round, s.mean) for s in history.scorings] == [(2, 0.5)]
    assert (history.started, history.ended) == (1_700_000_000.0, 1_700_000_060.0)
    assert history.finished and history.resumed == 1
    assert history.versions == {"python": "3.11.7"}
    assert history.sites == ("harbour", "hillside")


def test_repeated_rounds_count_once() -> None:
    history = History.of(EVENTS)
    assert [record.up for record in history.rounds] == [2_000_000] * 3
    assert [gone.code for record in history.rounds for gone in record.absent] == ["ValueError", "ValueError"]


def test_rounds_after_the_checkpoint_are_discarded_unless_repeated() -> None:
    events = [a_round(1), a_round(2), a_scoring(2, harbour=0.5), {"event": "resumed", "round": 1}]
    history = History.of(events)
    assert [record.number for record in history.rounds] == [1]
    assert history.scorings == ()


def test_costs_of_rounds_and_of_other_requests() -> None:
    costs = History.of(EVENTS).costs
    # Alone in two rounds and one of two in the third: 2 + 2 + 1 MB; three times two seconds, of them 1.5 of work.
    assert costs["train"]["harbour"] == Cost(750_000, 5_000_000, 6.0, 4.5)
    assert costs["train"]["hillside"] == Cost(750_000, 1_000_000, 4.0, 1.5)
    assert costs["finish"] == {"harbour": Cost(10, 20, 0.5, 0.5)}


def test_a_failed_round_has_costs() -> None:
    failed = {"event": "round_failed", "round": 2, "reason": "too few", "exchanges": {"train": {"h": [1, 2, 3.0, 0.0]}}}
    history = History.of([a_round(1), failed])
    assert history.failed == ((2, "too few"),)
    assert history.costs["train"]["h"] == Cost(1, 2, 3.0, 0.0)


def test_scores_by_type_are_added_over_sites() -> None:
    event = a_scoring(1, a=0.5, b=0.5) | {
        "counts": {"a": {"Drug": [1, 0, 1]}, "b": {"Drug": [2, 1, 0], "ADE": [0, 0, 1]}},
        "interval": {"a": [0.25, 0.75]},
    }
    (scoring,) = History.of([event]).scorings
    assert dict(scoring.pooled) == {"Drug": SpanCounts(3, 1, 1), "ADE": SpanCounts(0, 0, 1)}
    assert scoring.intervals == {"a": (0.25, 0.75)}


def test_a_training_at_one_site() -> None:
    events = [
        {"event": "started", "examples": 3, "training": {"seed": 5}},
        {"event": "epoch", "epoch": 1, "loss": 2.0, "dev_f1": 0.25, "best": True, "seconds": 1.5},
        {"event": "finished", "strict_f1": 0.5},
    ]
    history = History.of(events)
    (epoch,) = history.epochs
    assert (epoch.loss, epoch.dev_f1, epoch.best, epoch.seconds) == (2.0, 0.25, True, 1.5)
    assert history.training == {"seed": 5}


@pytest.mark.parametrize(
    "event", [{"event": "round", "round": 1}, {"event": "scored", "round": 1}, {"event": "other"}, {}]
)
def test_missing_figures_do_not_stop_a_report(event: dict[str, object]) -> None:
    assert History.of([event]).started is None


def test_columns_of_a_later_version_are_ignored() -> None:
    event = a_round(1, ("h", "late", "deadline")) | {"exchanges": {"train": {"h": [1, 2, 3.0, 0.5, 9], "g": [4, 5]}}}
    (record,) = History.of([event | {"absent": [["h", "late", "deadline", 9], ["g"]]}]).rounds
    assert record.costs == {"train": {"h": Cost(1, 2, 3.0, 0.5), "g": Cost(4, 5)}}
    assert record.absent == (Absence("h", "late", "deadline"), Absence("g", "", ""))
    scoring = a_scoring(1, a=0.5) | {"counts": {"a": {"Drug": [1, 0, 1, 9]}}, "interval": {"a": [0.25, 0.75, 0.95]}}
    (found,) = History.of([scoring]).scorings
    assert dict(found.pooled) == {"Drug": SpanCounts(1, 0, 1)}
    assert found.intervals == {"a": (0.25, 0.75)}


def test_null_values_are_missing() -> None:
    nothing = dict.fromkeys(("answered", "absent", "down", "up", "seconds", "exchanges", "coordinator", "figures"))
    (record,) = History.of([{"event": "round", "round": 1, "loss": None, **nothing}]).rounds
    assert isnan(record.loss)
    assert (record.answered, record.absent, record.up, record.costs, record.figures) == (0, (), 0, {}, {})
    scored = {"event": "scored", "round": 1, "f1": {"a": 0.5, "b": 1.0, "c": None}, "mean_f1": None}
    (scoring,) = History.of([scored | {"interval": {"a": None}, "counts": {"a": None}}]).scorings
    assert (scoring.f1, scoring.mean, scoring.intervals, scoring.counts) == ({"a": 0.5, "b": 1.0}, 0.75, {}, {})
    (epoch,) = History.of([{"event": "epoch", "epoch": 1, "loss": None, "dev_f1": None, "seconds": None}]).epochs
    assert isnan(epoch.loss) and (epoch.dev_f1, epoch.seconds) == (0.0, 0.0)
    costs = {"event": "asked", "round": None, "exchanges": {"a": None, "b": {"h": None, "g": [None, 2]}}}
    assert History.of([costs]).costs == {"b": {"g": Cost(0, 2)}}


@pytest.mark.parametrize("kind", ["round", "scored", "epoch"])
def test_a_line_without_its_number_is_ignored(kind: str) -> None:
    history = History.of([{"event": kind, kind: None}])
    assert (history.rounds, history.scorings, history.epochs) == ((), (), ())


def test_adding_costs() -> None:
    first = {"train": {"a": Cost(1, 2, 3.0, 1.0)}}
    assert add_costs(first, first, {"take": {"b": Cost(5)}}) == {
        "train": {"a": Cost(2, 4, 6.0, 2.0)},
        "take": {"b": Cost(5)},
    }
