from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.running import smallest

pytest.importorskip("nvflare", reason="install wardround[flare]")


@pytest.mark.slow
def test_it_samples_every_process_after_each_chosen_round(tmp_path: Path) -> None:
    found = smallest("memory", tmp_path)
    figures = found["figures"]
    processes = {"networked": {"coordinator", "sites"}, "in one process": {"one process"}}
    assert {figure["study"] for figure in figures} == set(processes)
    assert len(figures) == 2 * 3
    for figure in figures:
        assert figure["megabytes"].keys() == figure["threads"].keys() == processes[figure["study"]]
        # A Python with torch has at least this much, and the mapped files of libraries on top.
        assert all(50 < size < figure["resident"][name] for name, size in figure["megabytes"].items())
        assert all(threads >= 1 for threads in figure["threads"].values())
    rounds = [figure["round"] for figure in figures]
    assert all(at >= chosen for at, chosen in zip(rounds, [2, 3, 4, 2, 3, 4], strict=True))
    measures = [f"{name}: {what}" for name in ("coordinator", "sites", "one process") for what in ("memory", "threads")]
    assert [bar["name"] for bar in found["bars"]] == [f"{measure}, round 4 over 2" for measure in measures]
    assert all(bar["most"] > 1 for bar in found["bars"])
