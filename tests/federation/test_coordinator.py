from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from wardround.errors import TrainingError
from wardround.federation.coordinator import Coordinator, RoundContext, RoundsConfig, RoundSum
from wardround.federation.federation import Quorum, Replies, Reply, Traffic
from wardround.federation.message import Array, Message, Value
from wardround.secure_aggregation.plain import PlainServer, PlainUpdates
from wardround.training.training_config import RoundTrainingConfig

SITES = tuple(f"h{number}" for number in range(10))


class Noting(Coordinator):
    """Asks the sites and records which sites were asked."""

    def gather(self, context: RoundContext) -> RoundSum:
        return context.gather("train", {})

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Do nothing."""


class Answering:
    sites = SITES

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def ask(self, step: str, message: Message, *, to=None) -> Replies:  # type: ignore[no-untyped-def]
        if step == "describe":
            return iter([Reply(site, Message({"examples": 10}), Traffic(3, 5, 0.5)) for site in to])
        self.asked.append(list(to))
        update = PlainUpdates().seal({"w": np.ones(1, np.float32)}, weight=10.0)
        answer = Message({**update.values, "loss": 2.0}, update.arrays)
        return iter([Reply(site, answer, Traffic(100, 7, 0.5)) for site in to])


def coordinator(*, participation: float, rounds: int = 40, seed: int = 0) -> Noting:
    config = RoundsConfig(rounds=rounds, participation=participation)
    return Noting({"w": np.zeros(1, np.float32)}, config, RoundTrainingConfig(), seed=seed)


def asked(*, participation: float, seed: int = 0, start: int = 0) -> list[list[str]]:
    federation = Answering()
    server = coordinator(participation=participation, seed=seed)
    server.number = start
    list(server.rounds(federation, PlainServer(), Quorum()))
    return federation.asked


def test_a_fraction_of_the_sites_is_drawn_in_each_round() -> None:
    drawn = asked(participation=0.3)
    assert {len(sites) for sites in drawn} == {3}
    assert all(sites == sorted(sites) for sites in drawn)
    counts = Counter(site for sites in drawn for site in sites)
    assert set(counts) == set(SITES)
    assert max(counts.values()) < 25  # of 40 rounds; nobody is always asked
    assert asked(participation=1.0)[0] == list(SITES)
    assert {len(sites) for sites in asked(participation=0.01)} == {1}


def test_the_sampled_sites_depend_only_on_seed_and_round() -> None:
    whole = asked(participation=0.3)
    assert asked(participation=0.3) == whole
    assert asked(participation=0.3, start=25) == whole[25:]
    assert asked(participation=0.3, seed=1) != whole


def test_traffic_of_a_round_is_what_its_exchanges_cost() -> None:
    record = next(coordinator(participation=0.5).rounds(Answering(), PlainServer(), Quorum()))
    assert record.traffic == Traffic(500 + 30, 35 + 50, 2.5 + 5.0)  # and in the first round, meeting all ten
    assert (record.answered, record.loss) == (5, 2.0)


def test_invalid_settings_are_refused() -> None:
    for settings in ({"rounds": 0}, {"participation": 0.0}, {"participation": 1.1}):
        with pytest.raises(TrainingError, match=f"^{next(iter(settings))} is "):
            RoundsConfig(**settings)  # type: ignore[arg-type]
