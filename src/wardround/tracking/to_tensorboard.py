"""Write the figures of events as TensorBoard files, with TensorBoard's own writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from wardround.tracking.tracker import TrackedRun, points_of

__all__ = ["ToTensorBoard", "open_tensorboard"]


class ToTensorBoard:
    """One file per process; a resumed run removes the points after the round from which it resumes."""

    resume_id = ""

    def __init__(self, run: TrackedRun) -> None:
        self._writer = EventFileWriter(str(run.folder / "tensorboard"))
        self._last = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Add one event."""
        if event.get("event") == "resumed":
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(
                Event(wall_time=event.get("time", 0.0), step=event.get("round", 0) + 1, session_log=start)
            )
        points = points_of(event, last=self._last)
        if points is None:
            return
        self._last = points.step
        values = [Summary.Value(tag=name, simple_value=value) for name, value in points.values.items()]
        self._writer.add_event(Event(wall_time=points.time, step=points.step, summary=Summary(value=values)))

    def flush(self) -> None:
        """Write everything that was added to disk."""
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def open_tensorboard(run: TrackedRun, resume_id: str) -> ToTensorBoard:
    """Open a new file below the run's folder; every process writes its own."""
    return ToTensorBoard(run)
