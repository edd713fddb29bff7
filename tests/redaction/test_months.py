from __future__ import annotations

import pytest

from wardround.redaction.months import MONTH_NAMES, WEEKDAY_NAMES


@pytest.mark.parametrize(("table", "count"), [(MONTH_NAMES, 12), (WEEKDAY_NAMES, 7)])
def test_every_number_has_a_name_in_every_language(table: dict[str, list[tuple[str, int]]], count: int) -> None:
    for names in table.values():
        assert {number for _, number in names} == set(range(1, count + 1))
        assert len({name for name, _ in names}) == len(names)


def test_the_first_name_is_the_whole_one() -> None:
    assert MONTH_NAMES["en"][:2] == [("january", 1), ("jan", 1)]
    assert ("septiembre", 9) in MONTH_NAMES["es"] and ("miércoles", 3) in WEEKDAY_NAMES["es"]
