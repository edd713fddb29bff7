from __future__ import annotations

import re

from tests.docs.pages import codes, rows, section

from wardround.privacy.mechanism_table import MECHANISMS
from wardround.studies.catalogue import ALGORITHMS

READERS = section("privacy.md", "## Who can read an update")


def test_every_mechanism_has_a_row_that_says_who_can_read_what() -> None:
    found = {codes(row["`[privacy] mechanism`"])[0]: row for row in rows(READERS)}
    assert list(found) == list(MECHANISMS)
    for name, mechanism in MECHANISMS.items():
        expected = (
            "every update"
            if mechanism.coordinator_reads_update
            else "the sum"
            if mechanism.coordinator_reads_sum
            else "nothing"
        )
        assert found[name]["the coordinator"] == expected
        colludes = mechanism.coordinator_and_one_site_read_update and not mechanism.coordinator_reads_update
        assert ("with the coordinator, any update" in found[name]["the other sites"]) == colludes


def test_every_algorithm_is_named_with_the_mechanisms_it_runs_under() -> None:
    under_all, only_plain, baselines = (
        codes(sentence) for sentence in re.split(r"\. |\.\) ", READERS[READERS.index("`fedner`") :])[:3]
    )
    one_place = {name for name, algorithm in ALGORITHMS.items() if algorithm.sends in ("nothing", "notes")}
    assert set(baselines) == one_place
    single_updates = {name for name, algorithm in ALGORITHMS.items() if algorithm.needs_single_updates}
    assert set(only_plain) - {"plain"} == single_updates
    assert set(under_all) == set(ALGORITHMS) - one_place - single_updates
