"""Feed trackers from the event file of a run while it grows, without affecting the run.

Each tracker has a thread that reads the file as the console does. Its position is stored beside its output, so that a
resumed run neither skips nor repeats an event. A tracker that fails is stopped until the run is started again, with one
message; the run continues.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from wardround.errors import UsageError
from wardround.parsing import read_json
from wardround.reports.event_file import START, Position, read_after
from wardround.settings import did_you_mean
from wardround.tracking.tracker import TrackedRun, Tracker

__all__ = ["TRACKERS", "check_trackers", "feed_trackers"]

Say: TypeAlias = Callable[[str], None]
_Open: TypeAlias = Callable[[TrackedRun, str], Tracker]  # with the tracker's `resume_id`, empty at the first start

TRACKERS = ("tensorboard", "mlflow")
# By default MLflow sends usage data to its makers, and waits long for a server that does not respond.
_ENVIRONMENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
_POLL_SECONDS = 1.0
_END_SECONDS = 30.0  # for the remaining events after the run has ended


def check_trackers(names: Sequence[str]) -> dict[str, _Open]:
    """Return how to open each tracker; raise `UsageError` if one is unknown or not installed."""
    for name in names:
        if name not in TRACKERS:
            near = did_you_mean(name, TRACKERS)
            raise UsageError(f"--track: {name!r} is not a tracker{near}; there are {', '.join(TRACKERS)}")
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)  # read at import
    try:
        return {name: getattr(import_module(f"wardround.tracking.to_{name}"), f"open_{name}") for name in names}
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        raise UsageError(f"--track needs {missing}: pip install 'wardround[tracking]'") from None


@contextmanager
def feed_trackers(record: Path, run: TrackedRun, openers: Mapping[str, _Open], *, say: Say) -> Iterator[None]:
    """Feed the trackers from the record during the context, and the remaining events at its end.

    `say` receives messages about failures.
    """
    feeds = [
        _Feed(name, partial(opener, run), record=record, folder=run.folder, say=say) for name, opener in openers.items()
    ]
    for feed in feeds:
        feed.start()
    try:
        yield
    finally:
        for feed in feeds:
            feed.end()


class _Feed(threading.Thread):
    """The thread of one tracker."""

    def __init__(self, name: str, opener: Callable[[str], Tracker], *, record: Path, folder: Path, say: Say) -> None:
        super().__init__(name=f"feed-{name}", daemon=True)
        self._tracker_name, self._record, self._open, self._say = name, record, opener, say
        self._state = folder / f"{name}.json"
        self._over = threading.Event()

    def end(self) -> None:
        """Wait for the remaining events, up to a time limit."""
        self._over.set()
        self.join(_END_SECONDS)
        if self.is_alive():
            self._say(f"{self._tracker_name} takes too long; the missing events are sent at the next start")

    def run(self) -> None:
        """Feed until the run is over."""
        try:
            self._feed()
        except Exception as error:  # no error of a tracker may stop the study
            self._say(f"{self._tracker_name} stopped ({type(error).__name__}); the run continues without it")

    def _feed(self) -> None:
        resume_id, position = self._read_state()
        tracker = self._open(resume_id)
        if tracker.resume_id != resume_id:
            position = START  # a new tracker run has none of the earlier events
        try:
            while True:
                over = self._over.is_set()  # checked first, so that all earlier events are read below
                while (chunk := read_after(self._record, position)).position != position:
                    for event in chunk.events:
                        tracker.add(event)
                    tracker.flush()
                    position = chunk.position
                    self._write_state(tracker.resume_id, position)
                if over:
                    return
                self._over.wait(_POLL_SECONDS)
        finally:
            tracker.close()

    def _read_state(self) -> tuple[str, Position]:
        try:
            state = read_json(self._state)
            return str(state["memory"]), Position.parse(str(state["mark"]))
        except (OSError, ValueError, KeyError, TypeError):
            return "", START

    def _write_state(self, resume_id: str, position: Position) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        partial_file = self._state.with_name(self._state.name + ".partial")
        state = {"memory": resume_id, "mark": str(position)}  # the keys of version 0.1
        partial_file.write_text(json.dumps(state) + "\n", encoding="utf-8")
        partial_file.replace(self._state)
