from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of

from wardround.errors import UsageError

merging = fixture_of("common.merging")


def study(*seeds: int, rate: float = 0.1, **more: Any) -> dict[str, Any]:
    """One whose figures tell seed and rate; the shape of its network is no list of seeds."""
    counts = {site: [[seed, place] for seed in seeds] for place, site in enumerate(("a", "b"))}
    return {
        "seed": list(seeds),
        "f1": [seed + rate for seed in seeds],
        "counts": counts,
        "learning_rate": rate,
        "network": {"probe": [384]},
        **more,
    }


def joined(merging: ModuleType, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    found = merging.merged({"studies": {"one": old}}, {"studies": {"one": new}}, place="work")
    one: dict[str, Any] = found["studies"]["one"]
    return one


def test_seeds_join(merging: ModuleType) -> None:
    assert joined(merging, study(2), study(0, 1)) == study(0, 1, 2)
    assert joined(merging, study(0), study(1)) == study(0, 1)


def test_a_new_run_replaces_the_one_with_its_seed(merging: ModuleType) -> None:
    old, new = study(0, 1) | {"f1": [0.1, 0.2]}, study(1, 2) | {"f1": [0.3, 0.4]}
    assert joined(merging, old, new) == study(0, 1, 2) | {"f1": [0.1, 0.3, 0.4]}


def test_a_run_that_was_cut_off_replaces_no_finished_one(merging: ModuleType) -> None:
    old = study(0, 1, cut_off=[False, True], reached=[4, None])
    new = study(0, 1, cut_off=[True, True], reached=[None, 9])
    assert joined(merging, old, new) == study(0, 1, cut_off=[False, True], reached=[4, 9])


def test_incompatible_studies_are_not_merged(merging: ModuleType) -> None:
    two, one = study(0, 1), study(2, rate=0.5)
    assert joined(merging, two, one) == two, "another rate, and fewer seeds"
    assert joined(merging, one, two) == two
    told_more = study(2, told=[3])
    assert joined(merging, two, told_more) == two and joined(merging, told_more, two) == two


def test_studies_in_only_one_summary_are_kept(merging: ModuleType) -> None:
    found = merging.merged({"studies": {"old": study(0)}}, {"studies": {"new": study(1)}}, place="work")
    assert found == {"studies": {"old": study(0), "new": study(1)}, "devices": []}


def test_devices_join_and_what_was_left_out_stays(merging: ModuleType) -> None:
    known = {"studies": {}, "devices": ["cpu"], "left_out": ["c"], "overheads": {"n": 1}}
    found = {"studies": {}, "devices": ["a GPU"], "left_out": [], "overheads": {"n": 2}}
    assert merging.merged(known, found, place="work") == {
        "studies": {},
        "devices": ["a GPU", "cpu"],
        "left_out": ["c"],
        "overheads": {"n": 2},
    }


def test_more_settings_join(merging: ModuleType) -> None:
    known = {"chosen": {"a": {"rate": 1}}, "sites": {"x": {"samplings": {"0": ["t"]}}}}
    found = {
        "chosen": {"b": {"rate": 2}},
        "sites": {"x": {"samplings": {"0": ["t"], "1": ["u"]}}},
        "settings": {"n": 1},
    }
    assert merging.merged(known, found, place="work") == {
        "chosen": {"b": {"rate": 2}, "a": {"rate": 1}},
        "sites": {"x": {"samplings": {"0": ["t"], "1": ["u"]}}},
        "settings": {"n": 1},
        "devices": [],
        "studies": {},
    }
    with pytest.raises(UsageError, match=r"has other chosen than"):
        merging.merged(known, {"chosen": {"b": {}, "a": {"rate": 2}}}, place="work")


def test_summaries_with_other_settings_are_refused(merging: ModuleType) -> None:
    known, found = {"settings": {"rounds": 3}, "studies": {}}, {"settings": {"rounds": 4}, "studies": {}}
    with pytest.raises(UsageError, match=r"has other settings than the committed one .* in work/expected.json"):
        merging.merged(known, found, place="work")
    assert merging.merged({}, found, place="work") == {**found, "devices": []}
