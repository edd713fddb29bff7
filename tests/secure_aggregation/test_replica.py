from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.secure_aggregation.cohort import code_of

from wardround.algorithms.fedavg import FedAvg, FedAvgConfig
from wardround.algorithms.fedner import FedNer, FedNerConfig
from wardround.federation.coordinator import Coordinator
from wardround.federation.message import Array
from wardround.secure_aggregation.replica import Replica, digest_of_start
from wardround.training.training_config import RoundTrainingConfig


def server(kind: str = "fedavg", width: int = 2) -> Coordinator:
    start = {"w": np.zeros(width, np.float32), "b": np.ones(1, np.float32)}
    if kind == "fedner":
        return FedNer(start, FedNerConfig(rounds=9), RoundTrainingConfig(learning_rate=0.1))
    return FedAvg(start, FedAvgConfig(rounds=9), RoundTrainingConfig())


def mean(*numbers: float, b: float = 0.0) -> dict[str, Array]:
    return {"w": np.array(numbers, np.float32), "b": np.array([b], np.float32)}


def stepped(rounds: int, kind: str = "fedavg") -> Replica:
    replica = Replica(server(kind))
    for number in range(1, rounds + 1):
        replica.step(mean(1.0, -number), {}, number=number)
    return replica


def numbers(arrays: Any) -> list[float]:
    return [float(number) for number in arrays["w"]]


def test_it_steps_as_the_coordinator_would() -> None:
    """1 + 1 + 1 and −1 − 2 − 3."""
    replica = stepped(3)
    assert replica.number == 3
    assert numbers(replica.arrays(after=3)) == [3.0, -6.0]


@pytest.mark.parametrize("kind", ["fedavg", "fedner"])
def test_two_copies_stay_the_same_bit_for_bit(kind: str) -> None:
    coordinator, replica = server(kind), stepped(5, kind)
    for number in range(1, 6):
        coordinator.step(mean(1.0, -number), {})
        coordinator.number = number
    assert replica.shared_bytes() == Replica(coordinator).shared_bytes()
    assert replica.shared_bytes() != stepped(4, kind).shared_bytes()


def test_a_round_is_stepped_once_and_none_is_left_out() -> None:
    replica = stepped(3)
    assert code_of(replica.step, mean(1, 1), {}, number=3) == "round"
    assert code_of(replica.step, mean(1, 1), {}, number=5) == "behind"
    assert code_of(replica.arrays, after=4) == "behind"
    assert code_of(replica.arrays, after=2) == "round"
    assert numbers(replica.arrays(after=3)) == [3.0, -6.0]


def scored(replica: Replica, number: int, *, best: int) -> None:
    """Step and score round `number`; `best` is the best round before it."""
    replica.step(mean(1.0, 0.0), {}, number=number)
    replica.keep_scored(best)


def test_the_best_round_is_kept_though_it_is_known_only_later() -> None:
    replica = Replica(server())
    scored(replica, 1, best=0)
    scored(replica, 2, best=1)  # round 1 was the best
    scored(replica, 3, best=1)  # and still is
    scored(replica, 4, best=3)  # round 3 was better
    assert numbers(replica.best(3)) == [3.0, 0.0]
    assert numbers(replica.best(4)) == [4.0, 0.0]  # if the last turns out to be
    for lost in (1, 2, 5):
        assert code_of(replica.best, lost) == "behind"


def test_if_the_last_round_is_kept_it_is_the_last_scored_one() -> None:
    replica = Replica(server())
    scored(replica, 1, best=0)
    scored(replica, 2, best=1)  # whatever they scored
    scored(replica, 3, best=2)
    assert numbers(replica.best(3)) == [3.0, 0.0]


def test_without_a_best_round_the_present_shared_half_is_returned() -> None:
    replica = stepped(2)
    assert numbers(replica.best(0)) == [2.0, -3.0]


def test_the_kept_shared_half_does_not_change_with_the_next_step() -> None:
    replica = Replica(server())
    scored(replica, 1, best=0)
    replica.step(mean(5.0, 5.0), {}, number=2)
    assert numbers(replica.best(1)) == [1.0, 0.0]


def test_every_change_that_must_be_written_is_counted() -> None:
    replica = Replica(server())
    replica.step(mean(1.0, 1.0), {}, number=1)
    replica.keep_scored(0)
    copy = replica.to_bytes()
    assert replica.changes == 2
    replica.load_bytes(copy)  # of the same round: what came out differently is replaced
    assert replica.changes == 3
    replica.arrays(after=1)
    assert replica.changes == 3


@pytest.mark.parametrize("kind", ["fedavg", "fedner"])
def test_a_restored_copy_continues_like_the_original(kind: str) -> None:
    replica = Replica(server(kind))
    for number in (1, 2, 3):
        replica.step(mean(1.0, -1.0), {}, number=number)
        replica.keep_scored(number - 1)
    other = Replica(server(kind))
    other.load_bytes(replica.to_bytes())
    assert other.number == 3
    assert other.shared_bytes() == replica.shared_bytes()
    assert numbers(other.best(2)) == numbers(replica.best(2))
    assert numbers(other.best(3)) == numbers(replica.best(3))
    for one in (replica, other):  # with the same memory, Adam's moments among it
        one.step(mean(-2.0, 0.5), {}, number=4)
    assert other.shared_bytes() == replica.shared_bytes()


def test_a_state_is_a_copy() -> None:
    replica = Replica(server("fedner"))
    replica.step(mean(1.0, -1.0), {}, number=1)
    replica.keep_scored(0)
    kept = {name: tensor.clone() for name, tensor in replica.state().items()}
    before = replica.shared_bytes()
    replica.step(mean(1.0, -1.0), {}, number=2)
    replica.load(kept)
    assert (replica.number, replica.shared_bytes()) == (1, before)
    assert all(torch.equal(kept[name], tensor) for name, tensor in replica.state().items())


def test_invalid_copies_are_refused_and_change_nothing() -> None:
    replica, wide = stepped(1), Replica(server(width=3))
    before = replica.shared_bytes()
    for wrong in (b"", b"copy", replica.to_bytes()[:-1], wide.to_bytes()):
        assert code_of(replica.load_bytes, wrong) == "state"
    assert (replica.shared_bytes(), replica.number, replica.changes) == (before, 1, 1)


# A start that the seed does not give.

TOLD = {"w": np.array([4.0, 5.0], np.float32), "b": np.array([6.0], np.float32)}


def test_a_copy_without_its_starting_point_is_behind() -> None:
    replica = Replica(server(), digest_of_start(TOLD))
    assert (replica.receives_start, replica.has_begun) == (True, False)
    assert code_of(replica.arrays, after=0) == "behind"
    assert code_of(replica.step, mean(1, 1), {}, number=1) == "behind"
    assert code_of(replica.best, 0) == "behind"
    replica.begin(TOLD)
    assert replica.has_begun
    assert numbers(replica.arrays(after=0)) == [4.0, 5.0]
    assert replica.changes == 1
    replica.step(mean(1.0, 1.0), {}, number=1)
    assert numbers(replica.arrays(after=1)) == [5.0, 6.0]
    replica.begin(TOLD)  # told again, by a coordinator that came back: nothing is lost
    assert numbers(replica.arrays(after=1)) == [5.0, 6.0]


def test_only_the_starting_point_that_the_study_names_is_loaded() -> None:
    other = {**TOLD, "w": np.array([4.0, 5.5], np.float32)}
    replica = Replica(server(), digest_of_start(TOLD))
    assert code_of(replica.begin, other) == "start"
    assert code_of(Replica(server()).begin, TOLD) == "start"  # of a study that begins from its seed
    wide = {**TOLD, "w": np.zeros(3, np.float32)}
    assert code_of(Replica(server(), digest_of_start(wide)).begin, wide) == "shapes"


def test_the_digest_of_a_start_depends_on_names_shapes_and_numbers() -> None:
    square = {"w": np.zeros((2, 2), np.float32)}
    others = ({"v": square["w"]}, {"w": np.zeros((4, 1), np.float32)}, {"w": np.zeros((2, 2), np.int32)})
    assert digest_of_start(square) == digest_of_start({"w": np.zeros((2, 2), np.float32)})
    assert digest_of_start(square) not in {digest_of_start(other) for other in others}


def test_a_copy_of_one_that_has_begun_has_begun_too() -> None:
    one, late = Replica(server(), digest_of_start(TOLD)), Replica(server(), digest_of_start(TOLD))
    one.begin(TOLD)
    late.load_bytes(one.to_bytes())
    assert late.has_begun and late.shared_bytes() == one.shared_bytes()
