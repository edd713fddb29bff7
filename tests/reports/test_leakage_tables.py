from __future__ import annotations

import pytest

from wardround.evaluation.counts import SpanCounts
from wardround.evaluation.leakage import HidingScore, LeakageScore, TypeLeakage
from wardround.reports.leakage_tables import leakage_tables, site_leakage_tables

EAST = LeakageScore(
    HidingScore(SpanCounts(9, 1, 3), SpanCounts(40, 2, 10), notes=4, leaking_notes=1),
    {"CITY": TypeLeakage(2, 2, 0, 0), "NAME": TypeLeakage(6, 3, 2, 2)},
    exposed_notes=2,
)
WEST = LeakageScore(
    HidingScore(SpanCounts(3, 0, 0), SpanCounts(10, 0, 0), notes=6),
    {"NAME": TypeLeakage(2, 2, 0, 0)},
)


def test_of_one_model() -> None:
    words, types = leakage_tables(EAST)
    assert words.rows[0][:3] == ("words", 0.9, 0.75)
    assert types.rows == (("CITY", 2, 2, 0, 0, 1.0, 0), ("NAME", 6, 3, 2, 1, 0.5, 2))
    assert types.totals == (("all", 8, 5, 2, 1, 0.625, 2),)
    assert types.note.endswith("2 of 4 notes leak a mention (50.0%).")


def test_of_sites_whose_counts_are_added() -> None:
    sites, types = site_leakage_tables({"east": EAST, "west": WEST})
    assert sites.rows[0] == ("east", 4, 2, 0.5, 0.625, 0.75, 0.9, 0.8)
    assert sites.rows[1] == ("west", 6, 0, 0.0, 1.0, 1.0, 1.0, 1.0)
    # 7 of 10 mentions, 12 of 15 words of which 13 were marked, 50 of 60 characters.
    assert sites.totals[0] == ("all", 10, 2, 0.2, 0.7, 0.8, pytest.approx(12 / 13), pytest.approx(50 / 60))
    assert types.rows[1] == ("NAME", 8, 5, 2, 1, 0.625, 2)


def test_where_nobody_counts_what_leaks_there_is_no_table() -> None:
    assert site_leakage_tables({}) == ()
