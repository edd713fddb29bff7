from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.console.records import append, round_of, started, write_run

from wardround.console import streaming
from wardround.console.shown import shown_event
from wardround.console.streaming import frame_of, stream_of
from wardround.reports.event_file import START, Chunk, Position, read_after


def parsed(frame: str) -> tuple[Position, dict[str, Any]]:
    first, second, *rest = frame.split("\n")
    assert rest == ["", ""]
    return Position.parse(first.removeprefix("id: ")), json.loads(second.removeprefix("data: "))


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return write_run(tmp_path / "a", started(), round_of(1)) / "events.jsonl"


def heard(record: Path, position: Position, meanwhile: list[Callable[[], None]]) -> list[str]:
    """The first frames: one at once, and one after each thing that happens meanwhile."""

    async def listen() -> list[str]:
        frames: AsyncIterator[str] = stream_of(record, position, shown_event)
        assert await anext(frames) == "retry: 1000\n\n"
        found = [await anext(frames)]
        for happen in meanwhile:
            happen()
            with anyio.fail_after(20):
                found.append(await anext(frames))
        return found

    return anyio.run(listen)


def test_a_browser_gets_what_is_there_then_each_new_line(record: Path) -> None:
    first, second = heard(record, START, [lambda: append(record.parent, round_of(2))])
    position, body = parsed(first)
    assert [event["event"] for event in body["events"]] == ["started", "round"]
    assert position.offset == len(record.read_bytes()) - len(json.dumps(round_of(2))) - 1
    later, body = parsed(second)
    assert [event["round"] for event in body["events"]] == [2]
    assert later.offset == record.stat().st_size


def test_a_browser_that_comes_again_gets_only_what_it_has_not_had(record: Path) -> None:
    position = read_after(record).position
    append(record.parent, round_of(2))
    (frame,) = heard(record, position, [])
    assert [event["round"] for event in parsed(frame)[1]["events"]] == [2]


def test_a_browser_that_has_had_all_is_told_so_at_once(record: Path) -> None:
    position = read_after(record).position
    (frame,) = heard(record, position, [])
    assert parsed(frame)[0] == position
    assert parsed(frame)[1]["events"] == []


def test_another_run_in_the_same_folder_is_told_as_such(record: Path) -> None:
    position = read_after(record).position
    record.unlink()
    append(record.parent, round_of(1))
    (frame,) = heard(record, position, [])
    assert parsed(frame)[1]["anew"]


def test_a_silent_run_is_still_heard(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_QUIET_SECONDS", 0.0)
    frames = heard(record, START, [lambda: None])
    assert [len(parsed(frame)[1]["events"]) for frame in frames] == [2, 0]


def test_a_frame_is_one_line_of_json_whatever_the_record_says(record: Path) -> None:
    append(
        record.parent, round_of(2) | {"loss": float("nan"), "absent": [["a", "late", "x\r\ny"], ["a\nb", "late", ""]]}
    )
    frame = frame_of(read_after(record), shown_event)
    assert parsed(frame)[1]["events"][-1]["absent"] == [["a", "late", ""]]


def test_a_record_that_may_not_be_read_is_asked_again(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [True]

    def read(record: Path, position: Position) -> Chunk:
        if refused:
            raise PermissionError(record)
        return read_after(record, position)

    monkeypatch.setattr(streaming, "read_after", read)
    first, second = heard(record, START, [refused.clear])
    assert parsed(first)[1]["events"] == []
    assert [event["event"] for event in parsed(second)[1]["events"]] == ["started", "round"]
