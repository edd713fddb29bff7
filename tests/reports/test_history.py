from __future__ import annotations

import pytest
from tests.reports.run_records import EVENTS, a_round, a_scoring

from wardround.evaluation.counts import SpanCounts
from wardround.reports.history import Cost, History, added


def test_rounds_and_scorings_in_order() -> None:
    history = History.of(EVENTS)
    assert [record.number for record in history.rounds] == [1, 2, 3]
    assert [(s.round, s.mean) for s in history.scorings] == [(2, 0.5)]
    assert (history.started, history.ended) == (1_700_000_000.0, 1_700_000_060.0)
    assert history.finished and history.resumed == 1
    assert history.versions == {"python": "3.11.7"}
    assert history.sites == ("harbour", "hillside")


def test_what_a_crash_undid_counts_once() -> None:
    history = History.of(EVENTS)
    assert [record.up for record in history.rounds] == [2_000_000] * 3
    assert [gone.code for record in history.rounds for gone in record.absent] == ["ValueError", "ValueError"]


def test_a_round_after_the_checkpoint_that_was_not_done_again_is_no_part_of_the_run() -> None:
    events = [a_round(1), a_round(2), a_scoring(2, harbour=0.5), {"event": "resumed", "round": 1}]
    history = History.of(events)
    assert [record.number for record in history.rounds] == [1]
    assert history.scorings == ()


def test_costs_of_rounds_and_of_what_was_asked_beside_them() -> None:
    costs = History.of(EVENTS).costs
    # Alone in two rounds and one of two in the third: 2 + 2 + 1 MB; three times two seconds, of them 1.5 of work.
    assert costs["train"]["harbour"] == Cost(750_000, 5_000_000, 6.0, 4.5)
    assert costs["train"]["hillside"] == Cost(750_000, 1_000_000, 4.0, 1.5)
    assert costs["finish"] == {"harbour": Cost(10, 20, 0.5, 0.5)}


def test_a_round_in_vain_costs_too() -> None:
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
def test_lines_that_lack_figures_make_no_report_fail(event: dict[str, object]) -> None:
    assert History.of([event]).started is None


def test_adding_costs() -> None:
    first = {"train": {"a": Cost(1, 2, 3.0, 1.0)}}
    assert added(first, first, {"take": {"b": Cost(5)}}) == {
        "train": {"a": Cost(2, 4, 6.0, 2.0)},
        "take": {"b": Cost(5)},
    }
