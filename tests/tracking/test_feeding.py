from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.processes import eventually

from wardround.errors import UsageError
from wardround.tracking import feeding
from wardround.tracking.feeding import check_trackers, feed_trackers
from wardround.tracking.tracker import TrackedRun


class Notebook:
    """A tracker that remembers, and may fail."""

    def __init__(self, resume_id: str = "page 1", *, fails_at: int = 0) -> None:
        self.resume_id, self._fails_at = resume_id, fails_at
        self.taken: list[int] = []
        self.safe = 0
        self.closed = False

    def add(self, event: Mapping[str, Any]) -> None:
        if event["n"] == self._fails_at:
            raise ConnectionError("Mrs Quillfeather")
        self.taken.append(event["n"])

    def flush(self) -> None:
        self.safe = len(self.taken)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def append(record: Path, *numbers: int) -> None:
    with record.open("a") as stream:
        stream.writelines(json.dumps({"n": number}) + "\n" for number in numbers)


def run_in(record: Path) -> TrackedRun:
    return TrackedRun("study", "run", record.parent / "tracking")


def feed(record: Path, notebook: Notebook, *numbers: int) -> list[str]:
    """A process that appends these events and ends; what was said."""
    said: list[str] = []
    with feed_trackers(record, run_in(record), {"notebook": lambda run, resume_id: notebook}, say=said.append):
        append(record, *numbers)
    return said


def test_all_events_are_fed_before_it_ends(record: Path) -> None:
    notebook = Notebook()
    assert feed(record, notebook, 1, 2, 3) == []
    assert (notebook.taken, notebook.safe, notebook.closed) == ([1, 2, 3], 3, True)


def test_events_are_fed_during_the_run(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "_POLL_SECONDS", 0.01)
    notebook = Notebook()
    with feed_trackers(record, run_in(record), {"notebook": lambda run, resume_id: notebook}, say=print):
        append(record, 1)
        assert eventually(lambda: notebook.safe == 1)
        append(record, 2)
        assert eventually(lambda: notebook.safe == 2)


def test_another_process_continues_after_the_last_event(record: Path) -> None:
    feed(record, Notebook(), 1, 2)
    second = Notebook()
    feed(record, second, 3)
    assert second.taken == [3]


def test_a_tracker_gets_its_resume_id(record: Path) -> None:
    told: list[str] = []
    for _ in range(2):
        openers = {"notebook": lambda run, resume_id: told.append(resume_id) or Notebook()}
        with feed_trackers(record, run_in(record), openers, say=print):
            append(record, 1)
    assert told == ["", "page 1"]


def test_a_new_tracker_run_gets_all_events(record: Path) -> None:
    feed(record, Notebook(), 1, 2)
    second = Notebook("page 9")
    feed(record, second, 3)
    assert second.taken == [1, 2, 3]


def test_a_failing_tracker_does_not_affect_the_run_and_its_message_is_hidden(record: Path) -> None:
    other = Notebook()
    said: list[str] = []
    openers = {"notebook": lambda run, resume_id: Notebook(fails_at=2), "other": lambda run, resume_id: other}
    with feed_trackers(record, run_in(record), openers, say=said.append):
        append(record, 1, 2, 3)
    assert said == ["notebook stopped (ConnectionError); the run continues without it"]
    assert other.taken == [1, 2, 3]


def test_events_after_a_failure_are_sent_at_the_next_start(record: Path) -> None:
    feed(record, Notebook(), 1)
    feed(record, Notebook(fails_at=3), 2, 3)
    third = Notebook()
    feed(record, third, 4)
    assert third.taken == [2, 3, 4]


def test_an_error_of_the_run_is_raised(record: Path) -> None:
    notebook = Notebook()
    with (
        pytest.raises(ZeroDivisionError),
        feed_trackers(record, run_in(record), {"notebook": lambda run, resume_id: notebook}, say=print),
    ):
        append(record, 1)
        raise ZeroDivisionError
    assert notebook.taken == [1]


def test_an_unknown_tracker_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="--track: 'tensorbord' is not a tracker – did you mean 'tensorboard'"):
        check_trackers(["tensorbord"])


@pytest.mark.parametrize(("name", "missing"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow")])
def test_a_missing_package_is_named_with_its_extra(name: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = f"wardround.tracking.to_{name}"
    for module in [module for module in sys.modules if module == ours or module.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=rf"--track needs {missing}: pip install 'wardround\[tracking\]'"):
        check_trackers([name])


def test_without_trackers_no_package_is_needed() -> None:
    assert check_trackers([]) == {}
