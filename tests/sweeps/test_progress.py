from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from tests.sweeps.test_index import finish, opened

from wardround.sweeps.progress import SweepProgress


def test_a_line_a_run(tmp_path: Path) -> None:
    index, said = opened(tmp_path), io.StringIO()
    first, second, third, _ = index.runs
    with SweepProgress(index, console=Console(file=said, width=200)) as progress:
        for run in (first, second, third):
            progress.on_start(run)
        finish(index, first, 0.5)
        index.add(first)
        progress.on_end(first)
        progress.on_failure(second, "no note")
        progress.on_cut_off(third)
        progress.on_event("the GPU is shared")
    assert said.getvalue().splitlines() == [
        "1/4  FedNER, seed 7: F1 50",
        "1/4  alone, seed 7: failed: no note",
        "1/4  FedNER, seed 8: stopped; the same command goes on with it",
        "the GPU is shared",
    ]
