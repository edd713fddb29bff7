from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorboard", reason="tracking needs wardround[tracking]")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from wardround.tracking.to_tensorboard import open_tensorboard
from wardround.tracking.tracker import TrackedRun


def round_of(number: int, loss: float) -> dict[str, Any]:
    return {"time": 100.0 + number, "event": "round", "round": number, "loss": loss, "absent": []}


def write(folder: Path, *events: dict[str, Any]) -> None:
    """One process's part of a run."""
    tracker = open_tensorboard(TrackedRun("study", "run", folder), "")
    for event in events:
        tracker.add(event)
    tracker.flush()
    tracker.close()


def curve(folder: Path, name: str) -> list[tuple[int, float, float]]:
    """The points as TensorBoard reads them."""
    read = EventAccumulator(str(folder / "tensorboard")).Reload()
    return [(point.step, point.wall_time, point.value) for point in read.Scalars(name)]


def test_tensorboard_reads_the_written_points(tmp_path: Path) -> None:
    scored = {"time": 103.0, "event": "scored", "round": 2, "f1": {"harbour": 0.5}, "mean_f1": 0.5}
    write(tmp_path, {"time": 100.0, "event": "started", "round": 0}, round_of(1, 0.5), round_of(2, 0.25), scored)
    assert curve(tmp_path, "loss") == [(1, 101.0, 0.5), (2, 102.0, 0.25)]
    assert curve(tmp_path, "f1/harbour") == [(2, 103.0, 0.5)]


def test_the_final_scores_of_a_training_are_at_its_last_epoch(tmp_path: Path) -> None:
    epoch = {"time": 101.0, "event": "epoch", "epoch": 7, "loss": 0.5}
    write(tmp_path, epoch, {"time": 102.0, "event": "finished", "strict_f1": 0.75})
    assert curve(tmp_path, "test/strict_f1") == [(7, 102.0, 0.75)]


def test_repeated_rounds_replace_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, round_of(1, 0.5), round_of(2, 0.25), round_of(3, 0.125))
    # Files are named by the second in which they were made, and TensorBoard reads them by name.
    monkeypatch.setattr("tensorboard.summary.writer.event_file_writer.time.time", lambda: 4_000_000_000.0)
    write(tmp_path, {"time": 110.0, "event": "resumed", "round": 1}, round_of(2, 1.0), round_of(3, 2.0))
    assert [(step, value) for step, _, value in curve(tmp_path, "loss")] == [(1, 0.5), (2, 1.0), (3, 2.0)]
