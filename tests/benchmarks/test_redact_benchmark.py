from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.running import smallest


@pytest.mark.slow
def test_it_compares_both_thresholds_and_measures_memory_without_a_corpus(tmp_path: Path) -> None:
    found = smallest("redact", tmp_path)
    assert [figure.get("finder") for figure in found["figures"]] == ["Wardround", "Wardround 0.05", None, None, None]
    once, again, different = found["figures"][2:]
    assert (once["notes"], again["notes"], different["notes"]) == (1, 2, 2)
    assert [bar["name"] for bar in found["bars"]] == ["peak memory, 2 notes over 1"]
