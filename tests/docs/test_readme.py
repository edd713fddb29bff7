from __future__ import annotations

import re

from tests.docs.pages import ROOT, codes, rows

from wardround.secure_aggregation.mechanisms import MECHANISMS
from wardround.studies.catalogue import ALGORITHMS, Sharing

README = (ROOT / "README.md").read_text(encoding="utf-8")
(READERS,) = re.findall(r"^## Who can read an update\n(.*?)^## ", README, re.DOTALL | re.MULTILINE)


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
    one_place = {
        name for name, kind in ALGORITHMS.items() if not kind.steps or kind.sharing in (Sharing.NOTHING, Sharing.POOLED)
    }
    assert set(baselines) == one_place
    assert set(under_all) == {name for name, kind in ALGORITHMS.items() if kind.adds_updates} - one_place
    assert set(only_plain) - {"plain"} == {name for name, kind in ALGORITHMS.items() if not kind.adds_updates}
