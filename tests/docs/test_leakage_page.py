"""docs/leakage.md: its tables are those of the committed figures, and what other pages conclude holds for them."""

from __future__ import annotations

import json
import runpy
from typing import Any

import pytest
from tests.docs.pages import ROOT

from wardround.studies.leakage_findings import findings_from

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "measure_leakage.py"))
FIGURES: dict[str, Any] = json.loads(SCRIPT["FIGURES"].read_text(encoding="utf-8"))
NAMES = [f"{group} {mechanism}" for group, mechanism, _ in SCRIPT["studies"]()]


def recall(name: str) -> float:
    """The highest recall of a reader that only reads."""
    best = SCRIPT["best_by_reader"](FIGURES["studies"][name])
    return max(found.recall for found in best.values())


def test_the_tables_are_those_of_the_figures() -> None:
    page = SCRIPT["PAGE"].read_text(encoding="utf-8")
    assert page == SCRIPT["with_tables"](page, FIGURES)


def test_every_study_was_measured_as_it_is_now() -> None:
    assert list(FIGURES["studies"]) == NAMES
    for group, mechanism, each in SCRIPT["studies"]():
        findings = FIGURES["studies"][f"{group} {mechanism}"]
        assert findings["algorithm"] == each.algorithm
        assert findings["mechanism"].partition(",")[0] == mechanism
    assert FIGURES["made"]["versions"]["torch"]


def test_what_the_threat_model_calls_working_worked() -> None:
    for mechanism in SCRIPT["MECHANISMS"]:
        assert recall(f"words {mechanism}") >= 0.9
        assert recall(f"encoder {mechanism}") >= 0.9
        assert recall(f"layers-1 {mechanism}") >= 0.9
    assert recall("epoch masked") >= 0.9


def test_a_built_layer_worked_where_the_coordinator_sends_the_shared_half() -> None:
    for name in ("word-cnn plain", "layers-16 masked", "layers-40 masked"):
        built = SCRIPT["best_by_reader"](FIGURES["studies"][name], crafted=True)
        assert max(found.recall for found in built.values()) > recall(name)
    for name in ("word-cnn sealed", "word-cnn sealed+masked"):
        assert not SCRIPT["best_by_reader"](FIGURES["studies"][name], crafted=True)


def test_what_it_says_is_hidden_was_not_found() -> None:
    dp = FIGURES["studies"]["lora-dp masked"]
    assert all(found["recall"] <= found["chance"] + 0.05 for found in dp["findings"])
    for mechanism in SCRIPT["MECHANISMS"]:
        assert recall(f"word-cnn {mechanism}") <= 0.1
    assert recall("layers-40 masked") <= 0.25


def test_a_cell_says_which_attack_and_how_many_sentences() -> None:
    found = findings_from(
        {key: value for key, value in FIGURES["studies"]["words plain"].items() if key not in ("group", "seconds")}
    ).findings[0]
    assert SCRIPT["cell"](found, unseeing=False).startswith(f"{found.recall:.2f} (changed rows")
    assert SCRIPT["cell"](None, unseeing=True) == "ciphertexts"
    assert SCRIPT["cell"](None, unseeing=False) == "–"


@pytest.mark.parametrize("marker", ["recall", "f1"])
def test_a_page_without_a_marker_is_not_lost(marker: str) -> None:
    page = f"before\n<!-- {marker}: scripts/measure_leakage.py -->\nold\n<!-- end of {marker} -->\nafter"
    other = "f1" if marker == "recall" else "recall"
    tables = SCRIPT["with_tables"](
        f"{page}\n<!-- {other}: scripts/measure_leakage.py -->\n<!-- end of {other} -->", FIGURES
    )
    assert tables.startswith("before\n")
    assert "\nold\n" not in tables
    assert "\nafter" in tables
