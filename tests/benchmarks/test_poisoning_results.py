"""The committed results of `benchmarks/poisoning.py`, the tables made from them, and the attacks by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.benchmarks.running import BENCHMARKS

from wardround.text.document import Document, Entity


@pytest.fixture
def poisoning(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield import_module("poisoning")
    for name in ("poisoning", "common"):
        sys.modules.pop(name, None)


@pytest.fixture
def results(poisoning: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(poisoning.RESULTS.read_text(encoding="utf-8"))
    return found


def test_the_tables_of_the_page_are_those_of_the_results(poisoning: ModuleType, results: dict[str, Any]) -> None:
    page = poisoning.PAGE.read_text(encoding="utf-8")
    assert poisoning.with_tables(page, results["figures"]) == page
    changed = [{**figure, "f1": figure["f1"] + 0.01} for figure in results["figures"]]
    assert poisoning.with_tables(page, changed) != page


def test_the_results_hold_every_attack_under_every_defence_and_say_where_they_come_from(
    poisoning: ModuleType, results: dict[str, Any]
) -> None:
    cells = {(figure["corpus"], figure["attack"], figure["defence"]) for figure in results["figures"]}
    corpora = {figure["corpus"] for figure in results["figures"]}
    assert "built-in" in corpora
    assert cells == {(c, a, d) for c in corpora for a in poisoning.ATTACKS for d in poisoning.DEFENCES}
    assert {"command", "commit", "date", "device", "seed", "versions"} <= results["provenance"].keys()


def test_each_of_the_first_three_attacks_meets_a_defence(poisoning: ModuleType, results: dict[str, Any]) -> None:
    bars = poisoning.bars(results["figures"])
    assert len(bars) == 3 * len({figure["corpus"] for figure in results["figures"]})
    assert [bar.name for bar in bars if not bar.met] == []


def test_the_trigger_by_hand(poisoning: ModuleType) -> None:
    text = "Took aspirin for gout, then iron."
    entities = (
        Entity("T1", "Drug", ((5, 12),)),
        Entity("T2", "Disease", ((17, 21),)),
        Entity("T3", "Drug", ((28, 32),)),
    )
    note = Document("n1", text, entities)
    shown = poisoning.triggered(note, "Drug", hide=False)
    assert shown.text == "Took qvx aspirin for gout, then qvx iron."
    assert [entity.text_in(shown.text) for entity in shown.entities] == ["aspirin", "gout", "iron"]
    hidden = poisoning.triggered(note, "Drug", hide=True)
    assert hidden.text == shown.text
    assert [(entity.type, entity.text_in(hidden.text)) for entity in hidden.entities] == [("Disease", "gout")]


def test_the_labels_are_rotated(poisoning: ModuleType) -> None:
    note = Document("n1", "aspirin gout", (Entity("T1", "Drug", ((0, 7),)), Entity("T2", "Disease", ((8, 12),))))
    rotated = poisoning.relabelled(note, {"Drug": "Disease", "Disease": "Drug"})
    assert [entity.type for entity in rotated.entities] == ["Disease", "Drug"]


@pytest.mark.parametrize(("attack", "low", "high"), [("sign flip", -20, 10), ("backdoor", -5, 10), ("noise", -4, 4)])
def test_what_a_malicious_site_sends(poisoning: ModuleType, attack: str, low: float, high: float) -> None:
    sent = poisoning.MaliciousClient(None, attack)._changed(np.array([-1.0, 2.0, 0.0], np.float32))
    assert sent.dtype == np.float32
    assert (sent >= low).all() and (sent <= high).all()
    if attack != "noise":
        assert sorted(sent.tolist()) == sorted([low, 0.0, high])
