from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.federation.culprit_search import CulpritSearch

FOUR = ["a", "b", "c", "d"]


def rounds_until_found(search: CulpritSearch, sites: list[str], culprits: set[str], most: int = 200) -> int:
    """Return how many sums were spoiled until every culprit is excluded."""
    spoiled = 0
    for _ in range(most):
        present = [site for site in sites if site not in search.absent]
        assert len(present) >= search.minimum
        if culprits & set(present):
            spoiled += 1
            search.note_spoiled(present)
        else:
            search.note_good(present)
        if culprits <= set(search.excluded):
            return spoiled
    raise AssertionError(f"{culprits - set(search.excluded)} was not found")


def test_a_search_by_hand() -> None:
    """Of a, b, c and d the third spoils sums; at least two sites must take part."""
    search = CulpritSearch(minimum=2)
    assert search.note_spoiled(FOUR)
    assert search.absent == {"a", "b"}
    assert search.note_spoiled(["c", "d"])  # so it is c or d
    assert search.absent == {"c"}
    search.note_good(["a", "b", "d"])  # so it is c, who takes part again
    assert (search.absent, search.excluded) == (frozenset(), [])
    assert search.note_spoiled(FOUR)
    assert (search.absent, search.excluded) == ({"c"}, ["c"])


def test_one_spoiled_sum_excludes_nobody() -> None:
    search = CulpritSearch(minimum=3)
    search.note_spoiled(FOUR)
    assert search.absent == {"a"}
    for _ in range(5):
        search.note_good([site for site in FOUR if site not in search.absent])
    assert (search.absent, search.excluded) == (frozenset(), [])


def test_if_no_site_can_be_left_out_no_culprit_is_found() -> None:
    search = CulpritSearch(minimum=4)
    assert not search.note_spoiled(FOUR)
    assert not search.absent


def test_a_good_sum_before_any_was_spoiled_changes_nothing() -> None:
    search = CulpritSearch(minimum=2)
    search.note_good(FOUR)
    assert not search.absent


def test_a_site_that_is_known_is_excluded_at_once_and_only_once() -> None:
    search = CulpritSearch(minimum=2)
    search.note_spoiled(FOUR)
    search.exclude("d")
    search.exclude("d")
    assert (search.absent, search.excluded) == ({"d"}, ["d"])


@pytest.mark.parametrize(("sites", "minimum", "most"), [(4, 3, 4), (8, 3, 5), (64, 3, 8), (100, 50, 9)])
def test_one_culprit_is_found_in_few_tries(sites: int, minimum: int, most: int) -> None:
    names = [f"s{number:03}" for number in range(sites)]
    worst = max(rounds_until_found(CulpritSearch(minimum), names, {culprit}) for culprit in names)
    assert worst <= most


@given(st.integers(4, 12), st.data())
def test_no_honest_site_is_excluded_while_culprits_always_cheat(sites: int, data: st.DataObject) -> None:
    names = [f"s{number}" for number in range(sites)]
    minimum = data.draw(st.integers(1, sites - 1))
    culprit = data.draw(st.sampled_from(names))
    search = CulpritSearch(minimum)
    rounds_until_found(search, names, {culprit})
    assert search.excluded == [culprit]


def test_rejected_rounds_by_hand() -> None:
    """The first of two rejections in a row is only marked; then sites sit out until c is found."""
    search = CulpritSearch(minimum=2)
    search.patience = 2
    harmful = "most sites found the step harmful; it was not taken"
    assert search.after_round(FOUR, rejected=True) == (harmful, "")
    assert search.after_round(FOUR, rejected=False) == ("", "")
    assert search.after_round(FOUR, rejected=True) == (harmful, "")
    assert search.after_round(FOUR, rejected=True) == (f"{harmful}; the next round is tried without a, b", "")
    assert search.after_round(["c", "d"], rejected=True) == (f"{harmful}; the next round is tried without c", "")
    assert search.after_round(["a", "b", "d"], rejected=False) == ("", "")
    # c takes part again: one more rejection is enough.
    found = f"{harmful}; c causes it, and is excluded from the study"
    assert search.after_round(FOUR, rejected=True) == (found, "")
    assert search.absent == {"c"}


def test_rejections_without_a_site_to_leave_out_stop_the_study() -> None:
    search = CulpritSearch(minimum=4)
    notice, stop = search.after_round(FOUR, rejected=True)
    assert notice == "most sites found the step harmful; it was not taken"
    assert stop.startswith("most sites found the steps of 1 rounds in a row harmful; minimum_sites allows leaving no")


def test_a_restored_search_goes_on_at_every_point() -> None:
    spoiled = {"c"}
    search = CulpritSearch(minimum=2)
    for _ in range(8):
        restored = CulpritSearch(minimum=2)
        restored.load(search.state())
        assert (restored.absent, restored.state().keys()) == (search.absent, search.state().keys())
        search = restored
        present = [site for site in FOUR if site not in search.absent]
        search.after_round(present, rejected=bool(spoiled & set(present)))
    assert search.excluded == ["c"]
