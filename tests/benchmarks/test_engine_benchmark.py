from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.running import smallest

pytest.importorskip("nvflare", reason="install wardround[flare]")


def test_it_measures_every_part_and_skips_the_peer_that_must_be_installed(tmp_path: Path) -> None:
    found = smallest("engine", tmp_path)
    parts = [figure["part"] for figure in found["figures"]]
    assert parts == ["overhead", "idle", "idle", "flare", "flare", "scale", "scale", "scale", "scale"]
    assert all(figure["flower_s"] is None for figure in found["figures"] if figure["part"] == "idle")
    # The product and the hand-written loop do the same work, otherwise their times could not be compared.
    (apart,) = (bar for bar in found["bars"] if bar["name"].startswith("shared parameters"))
    assert apart["met"]
