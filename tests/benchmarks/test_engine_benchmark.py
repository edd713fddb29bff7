from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.running import smallest

pytest.importorskip("nvflare", reason="install wardround[flare]")


@pytest.mark.slow
def test_it_measures_every_part_but_the_peer_that_must_be_installed(tmp_path: Path) -> None:
    found = smallest("engine", tmp_path)
    parts = [figure["part"] for figure in found["figures"]]
    assert parts == ["overhead", "flare", "flare", "scale", "scale", "scale", "scale"]
    # Product and hand-written loop do the same work, or their times could not be compared.
    (apart,) = (bar for bar in found["bars"] if bar["name"].startswith("shared parameters"))
    assert apart["met"]
