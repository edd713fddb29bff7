from __future__ import annotations

import numpy as np
import pytest

from wardround.algorithms.coordinator import Coordinator
from wardround.algorithms.fedner import FedNer
from wardround.algorithms.stepping import SteppingConfig
from wardround.studies.catalogue import ALGORITHMS, Sharing

SHARED = {"w": np.zeros(2, np.float32)}


def test_every_algorithm_has_its_name() -> None:
    assert list(ALGORITHMS) == ["fedner", "fedavg", "fedprox", "fedatt", "single", "pooled"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_a_name_stands_for(name: str) -> None:
    kind = ALGORITHMS[name]
    assert issubclass(kind.server, Coordinator)
    assert kind.steps
    assert kind.line.endswith(".")
    assert kind.config.rounds > 0
    # The defaults are those with which the server can be built as it stands.
    assert kind.server({} if kind.sharing is Sharing.NOTHING else SHARED, kind.config, kind.training).number == 0


def test_only_the_baselines_decide_what_is_shared() -> None:
    decided = {name: kind.sharing for name, kind in ALGORITHMS.items() if kind.sharing is not Sharing.CHOSEN}
    assert decided == {"single": Sharing.NOTHING, "pooled": Sharing.POOLED}


def test_the_batch_of_fedner_is_that_of_all_sites_together() -> None:
    assert ALGORITHMS["fedner"].training == ALGORITHMS["pooled"].training == SteppingConfig(batch_size=64)
    assert {ALGORITHMS[name].training.batch_size for name in ("fedavg", "fedprox", "fedatt", "single")} == {16}


def test_pooling_is_fedner_with_everything_shared() -> None:
    # The mean gradient of all sites is the gradient of all notes: one mini-batch between two exchanges.
    assert ALGORITHMS["pooled"].server is FedNer
    assert ALGORITHMS["pooled"].config == ALGORITHMS["fedner"].config
    assert ALGORITHMS["pooled"].config.local_steps == 1  # type: ignore[attr-defined]
