"""The declarations of mechanisms, and a worked example: a further mechanism is one class and one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.studies.protected_studies import shielded
from tests.studies.tiny_studies import run
from torch import Tensor

from wardround.federation.aggregation import AggregationClient, AggregationServer, Tensors, dense
from wardround.federation.ledger import read_entries
from wardround.federation.message import Message, Value
from wardround.federation.site_history import SiteHistory
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.secure_aggregation.mechanisms import ClientSetup, Mechanism, Plain, ServerSetup
from wardround.training.state_files import load_tensors


class ChangedClient:
    """A site's end that changes each update before the inner client announces it; the other phases are the inner's.

    Differential privacy is such a change: it clips the update and adds the site's share of the noise.
    """

    unit_privacy = None

    def __init__(self, inner: AggregationClient, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self._inner, self._change = inner, change

    @property
    def history(self) -> SiteHistory:
        return self._inner.history

    @property
    def changes(self) -> int:
        return self._inner.changes

    @property
    def redraws(self) -> int:
        return self._inner.redraws

    def steps(self, replica: Any) -> Mapping[str, Callable[[Any, Message], Message]]:
        return self._inner.steps(replica)

    def begin(self, round_number: int, *, after: int, most_redraws: int) -> None:
        self._inner.begin(round_number, after=after, most_redraws=most_redraws)

    def announce(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        changed = {name: self._change(dense(part)) for name, part in update.items()}
        return self._inner.announce(changed, weight=weight, values=values, learn_clips=learn_clips)

    def state(self) -> dict[str, Tensor]:
        return self._inner.state()

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._inner.load(tensors)


class Changed(Mechanism):
    """A mechanism that wraps another: it declares the same and changes updates before the inner one protects them."""

    def __init__(self, inner: Mechanism, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self._inner, self._change = inner, change
        self.name = f"changed {inner.name}"
        self.protects, self.seals, self.masks = inner.protects, inner.seals, inner.masks
        self.minimum_sites, self.packages = inner.minimum_sites, inner.packages
        self.updates_readable_by = f"Updates are changed first. {inner.updates_readable_by}"
        self.predictions_readable_by = inner.predictions_readable_by
        self.summary, self.predictions_summary, self.report = inner.summary, inner.predictions_summary, inner.report
        self.coordinator_reads_update = inner.coordinator_reads_update
        self.coordinator_reads_sum = inner.coordinator_reads_sum
        self.coordinator_and_one_site_read_update = inner.coordinator_and_one_site_read_update

    def server(self, setup: ServerSetup) -> AggregationServer:
        return self._inner.server(setup)

    def client(self, setup: ClientSetup) -> AggregationClient:
        return ChangedClient(self._inner.client(setup), self._change)


class Open(Plain):
    """Plain aggregation under another name: the smallest mechanism that can be added."""

    name = "open"


def shared_after(folder: Path) -> dict[str, list[float]]:
    """Return the shared half at the end of a run."""
    return {name: tensor.flatten().tolist() for name, tensor in load_tensors(folder / "shared.safetensors").items()}


def register(monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism) -> str:
    """Add the mechanism to the table."""
    monkeypatch.setitem(MECHANISMS, mechanism.name, mechanism)
    return mechanism.name


def test_every_mechanism_declares_its_sentences() -> None:
    for name, mechanism in MECHANISMS.items():
        assert mechanism.name == name
        sentences = (mechanism.updates_readable_by, mechanism.predictions_readable_by, mechanism.report)
        assert all(sentence.endswith(".") for sentence in (*sentences, mechanism.summary))


@pytest.mark.parametrize(
    ("name", "comes_back", "expected"),
    [
        ("plain", False, ()),
        ("masked", False, ("submit", "unmask")),
        ("masked", True, ("submit", "unmask")),
        ("sealed", False, ("submit", "open_sum", "share_copy", "load_copy")),
        ("sealed", True, ("submit", "unmask", "open_mean")),
        ("sealed+masked", False, ("submit", "unmask", "open_sum", "share_copy", "load_copy")),
    ],
)
def test_the_steps_after_the_announcement(name: str, comes_back: bool, expected: tuple[str, ...]) -> None:
    assert MECHANISMS[name].steps(mean_comes_back=comes_back) == expected


def test_a_further_mechanism_is_one_class_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = register(monkeypatch, Open())
    run(shielded(tmp_path, "plain", algorithm={"rounds": 2}), tmp_path / "plain")
    run(shielded(tmp_path, "plain", algorithm={"rounds": 2}, privacy={"mechanism": name}), tmp_path / "open")
    assert shared_after(tmp_path / "open") == shared_after(tmp_path / "plain")
    ledger = tmp_path / "open" / "sites" / "north" / "ledger.jsonl"
    assert {entry.mechanism for entry in read_entries(ledger)} == {"open"}


@pytest.mark.parametrize("inner", ["plain", "masked"])
def test_a_mechanism_can_wrap_another(inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(shielded(tmp_path, inner, algorithm={"rounds": 2}), tmp_path / "inner")
    changes = {"same": lambda array: array, "zero": np.zeros_like}
    for folder, change in changes.items():
        name = register(monkeypatch, Changed(MECHANISMS[inner], change))
        study = shielded(tmp_path, inner, algorithm={"rounds": 2}, privacy={"mechanism": name})
        run(study, tmp_path / folder)
    assert shared_after(tmp_path / "same") == shared_after(tmp_path / "inner")
    assert shared_after(tmp_path / "zero") != shared_after(tmp_path / "inner")
