from __future__ import annotations

from typing import Any

from tests.reports.run_records import a_round

from wardround.reports.attendance import attendance_section, states_of
from wardround.reports.history import History

SITES = ("harbour", "hillside", "lakeside")
LATE = ("hillside", "late", "deadline")


def history(*events: dict[str, Any]) -> History:
    return History.of(events)


def test_who_gave_who_was_absent_and_who_was_not_asked() -> None:
    (record,) = history(a_round(1, LATE)).rounds
    assert states_of(record, SITES) == {"harbour": "gave", "hillside": "late", "lakeside": "not asked"}


def test_a_row_a_site() -> None:
    section = attendance_section(history(a_round(1, LATE), a_round(2), a_round(3, asked=SITES)), SITES)
    table, absences = section.tables
    assert (table.title, table.file) == ("Part of each site in 3 rounds", "Part of each site")
    assert table.columns == ("site", "rounds asked", "gave", "late", "failed", "refused")
    assert table.rows == (("harbour", 3, 3, 0, 0, 0), ("hillside", 3, 2, 1, 0, 0), ("lakeside", 1, 1, 0, 0, 0))
    assert absences.rows == (("hillside", "late", "deadline", 1),)


def test_the_map_is_told_in_words() -> None:
    (drawing,) = attendance_section(history(a_round(1, LATE), a_round(2)), SITES).drawings
    assert drawing.told == "Sites by round: gave 3 times, late 1 times, not asked 2 times."
    assert drawing.plot is not None
    assert drawing.caption == "A row a site, a column a round."


def test_of_many_rounds_several_are_one_column() -> None:
    events = [a_round(number, *([LATE] if number == 200 else [])) for number in range(1, 241)]
    (drawing,) = attendance_section(history(*events), SITES).drawings
    assert drawing.caption.endswith("A column is 2 rounds; in it an absence is seen before a gift.")


def test_where_nobody_was_absent_there_is_no_table_of_absences() -> None:
    assert len(attendance_section(history(a_round(1)), SITES).tables) == 1


def test_a_run_that_did_not_note_whom_it_asked_has_its_absences() -> None:
    section = attendance_section(history(a_round(1, LATE) | {"exchanges": {}}), SITES)
    assert not section.drawings
    assert section.tables[0].rows == (("hillside", "late", "deadline", 1),)
    assert attendance_section(history(a_round(1) | {"exchanges": {}}), SITES).tables[0].rows == (("none", "", "", 0),)
