from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wardround.errors import MessageError, StudyError
from wardround.privacy.acceptance import SLOTS, Acceptance, Accepted, ballot, count_ballots
from wardround.secure_aggregation.mechanisms import Masked, Sealed, SealedMasked


def mean_of(*votes: tuple[bool, int], voters: int) -> np.ndarray:
    return np.mean([ballot(harmful, slot=slot, voters=voters) for harmful, slot in votes], axis=0)


def test_votes_by_hand() -> None:
    votes = ((True, 3), (False, 70), (True, 4000), (False, 0), (False, 9))
    assert count_ballots(mean_of(*votes, voters=5), cast=5, voters=5) == 2
    # Some voters are absent.
    assert count_ballots(mean_of(*votes[:3], voters=5), cast=3, voters=5) == 2


def test_votes_in_one_slot_are_all_counted() -> None:
    votes = ((True, 8), (False, 8), (True, 8), (False, 8), (False, 8))
    assert count_ballots(mean_of(*votes, voters=5), cast=5, voters=5) == 2


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), min_size=1, max_size=100))
@settings(max_examples=40, deadline=None)
def test_any_votes_are_counted(votes: list[tuple[bool, int]]) -> None:
    found = count_ballots(mean_of(*votes, voters=100), cast=len(votes), voters=100)
    assert found == sum(harmful for harmful, _ in votes)


HONEST = ((True, 3), (True, 70), (True, 4000), (True, 9))


def forged(*changes: tuple[int, float]) -> np.ndarray:
    """The mean of four honest votes against a step and of what a fifth site submits."""
    own = np.zeros(SLOTS, np.float32)
    for slot, number in changes:
        own[slot] += number
    return np.mean([*(ballot(harmful, slot=slot, voters=5) for harmful, slot in HONEST), own], axis=0)


@pytest.mark.parametrize(
    "changes",
    [
        [(11, 1.0), (12, 1.0)],  # two votes
        [(11, 1 / 6), (12, -1.0)],  # takes a vote away from a slot that nobody drew
        [(11, 1 / 6), (12, 1 / 6), (13, -1 / 6)],
        [],  # none
        [(11, 0.5)],  # half a vote, which would be three of the smaller ones
        [(11, 1 / 12)],  # a part of the smallest vote
        [(11, 1.0), (3, -1.0)],  # hits the slot of another site and so takes its vote away, but casts one too few
    ],
)
def test_a_site_that_casts_more_or_other_than_one_vote_is_noticed(changes: list[tuple[int, float]]) -> None:
    with pytest.raises(MessageError, match="votes"):
        count_ballots(forged(*changes), cast=5, voters=5)
    assert count_ballots(forged((11, 1 / 6)), cast=5, voters=5) == 4  # one vote for the step changes nothing


def test_only_a_site_that_guesses_a_slot_turns_a_vote_of_another_site() -> None:
    # It takes the vote in slot 3 away and casts two for the step: undetected, with probability 4 / SLOTS a guess.
    assert count_ballots(forged((3, -1.0), (11, 1 / 6), (12, 1 / 6)), cast=5, voters=5) == 3
    with pytest.raises(MessageError):
        count_ballots(forged((4, -1.0), (11, 1 / 6), (12, 1 / 6)), cast=5, voters=5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"sentences": -1}, "sentences is -1; it must be at least 0"),
        ({"patience": 0}, "patience is 0; it must be at least 1"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, float], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        replace(Acceptance(), **changes)


@pytest.mark.parametrize("inner", [Masked(), Sealed(), SealedMasked()], ids=lambda inner: inner.name)
def test_the_declaration_says_what_the_wrapped_one_says_and_what_votes_reveal(inner: Masked | Sealed) -> None:
    declared = Accepted(inner, Acceptance(tolerance=0.25))
    assert declared.name == f"{inner.name} with acceptance by the sites"
    assert declared.updates_readable_by.startswith(inner.updates_readable_by)
    assert "grows by more than 25%" in declared.updates_readable_by
    assert "how many sites find the step harmful, but not which" in declared.updates_readable_by
    assert declared.minimum_sites == 3
    steps = declared.steps(mean_comes_back=False)
    assert "open_sum" not in steps
    assert {"judge", "submit_vote", "unmask_vote"} < set(steps)
    assert ("decide" in steps) == inner.seals
