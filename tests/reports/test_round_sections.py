from __future__ import annotations

from typing import Any

import pytest
from tests.reports.run_records import EVENTS, a_round, a_scoring

from wardround.reports import round_sections
from wardround.reports.history import History
from wardround.reports.page import Section
from wardround.reports.plots import learning_curves
from wardround.reports.round_sections import participation_section, rounds_section, site_states
from wardround.reports.tables import score_cell


def section(events: list[dict[str, Any]]) -> Section:
    return rounds_section(History.of(events), "strict")


def named(found: Section) -> list[str]:
    return [chart.name for chart in found.charts]


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


def test_the_charts_of_a_study() -> None:
    scoring = a_scoring(1, a=0.5, b=0.25) | BY_TYPE
    found = section([a_round(1), scoring])
    assert named(found) == ["development-f1", "development-f1-by-type", "training-loss"]
    assert found.charts[0].alt.endswith("Last: a 0.500, b 0.250.")
    assert found.charts[0].caption.endswith("shaded: 95% bootstrap intervals over notes.")
    assert found.charts[2].alt == "Training loss from 1.000 in round 1 to 1.000 in the last."


def test_interruptions_and_failed_rounds_are_reported() -> None:
    failed = {"event": "round_failed", "round": 4, "reason": "1 of 2 sites answered"}
    prose = section([*EVENTS, failed]).text
    assert "The run was interrupted and resumed 1 times." in prose
    assert "Round 4 failed: 1 of 2 sites answered." in prose


def test_teacher_and_student_head_by_head() -> None:
    figures = {"entities/teacher_accuracy": 0.5, "entities/agreement": 0.75, "public_loss": 1.0}
    found = section([a_round(1) | {"figures": figures}])
    assert named(found) == ["training-loss", "Teacher and student: entities"]
    assert found.charts[1].alt.endswith("Last: teacher correct 0.500, student agrees with teacher 0.750.")
    plain = section([a_round(1) | {"figures": {"teacher_accuracy": 0.5}}])
    assert named(plain) == ["training-loss", "Teacher and student"]


def test_epochs_of_a_training_at_one_site() -> None:
    epoch = {"event": "epoch", "epoch": 1, "loss": 2.0, "dev_f1": 0.25, "best": True, "seconds": 1.5}
    found = section([{"event": "started"}, epoch])
    assert found.heading == "Epochs"
    assert found.tables[0].rows == (("1", 2.0, 0.25, "yes", 1.5),)
    assert named(found) == ["development-f1", "training-loss"]


def test_a_missing_loss_is_left_out() -> None:
    epoch = {"event": "epoch", "epoch": 1, "loss": None, "dev_f1": 0.25, "best": True, "seconds": 1.5}
    found = section([epoch])
    assert found.tables[0].rows == (("1", None, 0.25, "yes", 1.5),)
    assert named(found) == ["development-f1"]
    assert named(section([a_round(1) | {"loss": None}])) == []


@pytest.mark.parametrize(("count", "every_site"), [(10, True), (11, False)])
def test_the_mean_of_many_sites_is_drawn(count: int, every_site: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[set[str]] = []

    def listened(series: Any, labels: Any, *, bands: Any = None) -> Any:
        drawn.append(set(series))
        return learning_curves(series, labels, bands=bands)

    monkeypatch.setattr(round_sections, "learning_curves", listened)
    names = {f"h{number}": 0.5 for number in range(count)}
    found = section([a_round(1), a_scoring(1, **names), a_round(2), a_scoring(2, **names)])
    assert drawn == [set(names) if every_site else {"mean"}, {"loss"}]
    assert found.tables[0].columns == ("round", "mean of sites")  # too many for a column each


def test_without_events_there_are_no_charts() -> None:
    found = section([])
    assert (found.tables, found.charts, found.text) == ((), (), "")


SITES = ("harbour", "hillside", "lakeside")
LATE = ("hillside", "late", "deadline")


def history(*events: dict[str, Any]) -> History:
    return History.of(events)


def test_states_of_sites_in_a_round() -> None:
    (record,) = history(a_round(1, LATE)).rounds
    assert site_states(record, SITES) == {"harbour": "took part", "hillside": "late", "lakeside": "not asked"}


def test_one_row_per_site() -> None:
    section = participation_section(history(a_round(1, LATE), a_round(2), a_round(3, asked=SITES)), SITES)
    table, absences = section.tables
    assert (table.title, table.file) == ("Participation of each site in 3 rounds", "Participation of each site")
    assert table.columns == ("site", "rounds asked", "took part", "late", "failed", "refused")
    assert table.rows == (("harbour", 3, 3, 0, 0, 0), ("hillside", 3, 2, 1, 0, 0), ("lakeside", 1, 1, 0, 0, 0))
    assert absences.rows == (("hillside", "late", "deadline", 1),)


def test_the_participation_map_has_a_text_alternative() -> None:
    (chart,) = participation_section(history(a_round(1, LATE), a_round(2)), SITES).charts
    assert chart.alt == "Sites by round: took part 3 times, late 1 times, not asked 2 times."
    assert chart.plot is not None
    assert chart.caption == "One row per site, one column per round."


def test_several_of_many_rounds_share_a_column() -> None:
    events = [a_round(number, *([LATE] if number == 200 else [])) for number in range(1, 241)]
    (chart,) = participation_section(history(*events), SITES).charts
    assert chart.caption.endswith("one column per 2 rounds; a column shows the worst state in these rounds.")


def test_no_table_of_absences_without_absences() -> None:
    assert len(participation_section(history(a_round(1)), SITES).tables) == 1


def test_a_run_without_recorded_requests_shows_its_absences() -> None:
    section = participation_section(history(a_round(1, LATE) | {"exchanges": {}}), SITES)
    assert not section.charts
    assert section.tables[0].rows == (("hillside", "late", "deadline", 1),)
    assert participation_section(history(a_round(1) | {"exchanges": {}}), SITES).tables[0].rows == (
        ("none", "", "", 0),
    )
