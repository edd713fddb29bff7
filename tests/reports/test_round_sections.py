from __future__ import annotations

from typing import Any

import pytest
from tests.reports.run_records import EVENTS, a_round, a_scoring

from wardround.reports import round_sections
from wardround.reports.history import History
from wardround.reports.page import Section
from wardround.reports.plots import learning_curves
from wardround.reports.round_sections import rounds_section
from wardround.reports.tables import score_cell


def section(events: list[dict[str, Any]]) -> Section:
    return rounds_section(History.of(events), "strict")


def named(found: Section) -> list[str]:
    return [drawing.name for drawing in found.drawings]


BY_TYPE = {
    "interval": {"a": [0.25, 0.75]},
    "counts": {"a": {"Drug": [1, 0, 1]}, "b": {"Drug": [2, 1, 0], "ADE": [0, 0, 1]}},
}


def test_scores_by_round_and_site_with_intervals() -> None:
    found = section([a_round(1), a_scoring(1, a=0.5, b=0.25) | BY_TYPE, a_round(2), a_scoring(2, b=1.0)])
    table = found.tables[0]
    assert table.title == "Development strict micro-F1 by round and site"
    assert table.columns == ("round", "a", "b", "mean of sites")
    first = (score_cell(0.5, (0.25, 0.75)), score_cell(0.25, None))
    assert table.rows == (("1", *first, 0.375), ("2", score_cell(None, None), score_cell(1.0, None), 1.0))
    assert table.to_csv().splitlines() == [
        "round,a,a low,a high,b,b low,b high,mean of sites",
        "1,0.5,0.25,0.75,0.25,,,0.375",
        "2,,,,1.0,,,1.0",
    ]


def test_scores_by_round_and_type_are_of_all_sites_together() -> None:
    table = section([a_round(1), a_scoring(1, a=0.5, b=0.25) | BY_TYPE]).tables[1]
    # Three right, one wrong, one missed: 6/8.
    assert (table.columns, table.rows) == (("round", "ADE", "Drug"), (("1", 0.0, 0.75),))


def test_the_drawings_of_a_study() -> None:
    scoring = a_scoring(1, a=0.5, b=0.25) | BY_TYPE
    found = section([a_round(1), scoring])
    assert named(found) == ["development-f1", "development-f1-by-type", "training-loss"]
    assert found.drawings[0].told.endswith("Last: a 0.500, b 0.250.")
    assert found.drawings[0].caption.endswith("shaded are 95% bootstrap intervals over notes.")
    assert found.drawings[2].told == "Training loss from 1.000 in round 1 to 1.000 in the last."


def test_a_run_that_was_interrupted_or_tried_in_vain_says_so() -> None:
    failed = {"event": "round_failed", "round": 4, "reason": "1 of 2 sites answered"}
    prose = section([*EVENTS, failed]).prose
    assert "The run was interrupted and went on 1 times." in prose
    assert "Round 4 was tried in vain: 1 of 2 sites answered." in prose


def test_teacher_and_student_head_by_head() -> None:
    figures = {"entities/teacher_accuracy": 0.5, "entities/agreement": 0.75, "public_loss": 1.0}
    found = section([a_round(1) | {"figures": figures}])
    assert named(found) == ["training-loss", "Teacher and student: entities"]
    assert found.drawings[1].told.endswith("Last: teacher right 0.500, student as teacher 0.750.")
    plain = section([a_round(1) | {"figures": {"teacher_accuracy": 0.5}}])
    assert named(plain) == ["training-loss", "Teacher and student"]


def test_epochs_of_a_training_at_one_site() -> None:
    epoch = {"event": "epoch", "epoch": 1, "loss": 2.0, "dev_f1": 0.25, "best": True, "seconds": 1.5}
    found = section([{"event": "started"}, epoch])
    assert found.heading == "Epochs"
    assert found.tables[0].rows == (("1", 2.0, 0.25, "yes", 1.5),)
    assert named(found) == ["development-f1", "training-loss"]


def test_a_loss_that_is_not_on_record_is_left_out() -> None:
    epoch = {"event": "epoch", "epoch": 1, "loss": None, "dev_f1": 0.25, "best": True, "seconds": 1.5}
    found = section([epoch])
    assert found.tables[0].rows == (("1", None, 0.25, "yes", 1.5),)
    assert named(found) == ["development-f1"]
    assert named(section([a_round(1) | {"loss": None}])) == []


@pytest.mark.parametrize(("count", "every_site"), [(10, True), (11, False)])
def test_of_many_sites_the_mean_is_drawn(count: int, every_site: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[set[str]] = []

    def listened(series: Any, labels: Any, *, bands: Any = None) -> Any:
        drawn.append(set(series))
        return learning_curves(series, labels, bands=bands)

    monkeypatch.setattr(round_sections, "learning_curves", listened)
    names = {f"h{number}": 0.5 for number in range(count)}
    found = section([a_round(1), a_scoring(1, **names), a_round(2), a_scoring(2, **names)])
    assert drawn == [set(names) if every_site else {"mean"}, {"loss"}]
    assert found.tables[0].columns == ("round", "mean of sites")  # too many for a column each


def test_without_events_there_is_nothing_to_draw() -> None:
    found = section([])
    assert (found.tables, found.drawings, found.prose) == ((), (), "")
