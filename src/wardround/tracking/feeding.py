"""Trackers fed from a run's record while it grows, beside the run and never in its way.

Each tracker has a thread that reads the record as a console does. How far it came stands in a file beside what it
wrote, so that a run that goes on after a crash neither skips nor doubles an event. A tracker that fails is given up
until the run is started again, and says so once; the run goes on.
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

__all__ = ["TRACKERS", "check_trackers", "fed"]

Say: TypeAlias = Callable[[str], None]
_Open: TypeAlias = Callable[[TrackedRun, str], Tracker]  # with what the tracker remembered; empty is nothing

TRACKERS = ("tensorboard", "mlflow")
# MLflow tells its makers how it is used unless it is told not to, and waits long for a server that is away.
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
_LOOK_SECONDS = 1.0
_END_SECONDS = 30.0  # for what is left once the run is over


def check_trackers(names: Sequence[str]) -> dict[str, _Open]:
    """How each of these trackers is opened; refused where one is not known or not installed."""
    for name in names:
        if name not in TRACKERS:
            near = did_you_mean(name, TRACKERS)
            raise UsageError(f"--track: {name!r} is no tracker{near}; there are {', '.join(TRACKERS)}")
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)  # read when it is imported
    try:
        return {name: _opener(name) for name in names}
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        raise UsageError(f"--track needs {missing}: pip install 'wardround[tracking]'") from None


def _opener(name: str) -> _Open:
    module = import_module(f"wardround.tracking.to_{name}")
    opened: _Open = getattr(module, f"open_{name}")
    return opened


@contextmanager
def fed(record: Path, run: TrackedRun, openers: Mapping[str, _Open], *, say: Say) -> Iterator[None]:
    """Feed these trackers from the record until the work below is over and all of it was fed; `say` is for faults."""
    feeds = [
        _Feed(name, partial(opened, run), record=record, folder=run.folder, say=say) for name, opened in openers.items()
    ]
    for feed in feeds:
        feed.start()
    try:
        yield
    finally:
        for feed in feeds:
            feed.end()


class _Feed(threading.Thread):
    """One tracker."""

    def __init__(self, name: str, opened: Callable[[str], Tracker], *, record: Path, folder: Path, say: Say) -> None:
        super().__init__(name=f"feed-{name}", daemon=True)
        self._tracker_name, self._record, self._open, self._say = name, record, opened, say
        self._state = folder / f"{name}.json"
        self._over = threading.Event()

    def end(self) -> None:
        """Wait until the rest is fed, but not for ever."""
        self._over.set()
        self.join(_END_SECONDS)
        if self.is_alive():
            self._say(f"{self._tracker_name} takes too long; what is missing there comes with the next start")

    def run(self) -> None:
        """Feed until the run is over."""
        try:
            self._feed()
        except Exception as error:  # whatever a tracker does, the study goes on
            self._say(f"{self._tracker_name} is not fed any more ({type(error).__name__}); the run goes on without it")

    def _feed(self) -> None:
        memory, position = self._recalled()
        tracker = self._open(memory)
        if tracker.memory != memory:
            position = START  # it is another than the one that had the rest
        try:
            while True:
                over = self._over.is_set()  # looked up first, so that what came before it is read below
                position = self._fed_on(tracker, position)
                if over:
                    return
                self._over.wait(_LOOK_SECONDS)
        finally:
            tracker.close()

    def _fed_on(self, tracker: Tracker, position: Position) -> Position:
        """Feed all that is there now."""
        while (chunk := read_after(self._record, position)).position != position:
            for event in chunk.events:
                tracker.take(event)
            tracker.flush()
            position = chunk.position
            self._remember(tracker.memory, position)
        return position

    def _recalled(self) -> tuple[str, Position]:
        try:
            told = read_json(self._state)
            return str(told["memory"]), Position.parse(str(told["mark"]))
        except (OSError, ValueError, KeyError, TypeError):
            return "", START

    def _remember(self, memory: str, position: Position) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        partial_file = self._state.with_name(self._state.name + ".partial")
        partial_file.write_text(json.dumps({"memory": memory, "mark": str(position)}) + "\n", encoding="utf-8")
        partial_file.replace(self._state)
