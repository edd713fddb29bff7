from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.console.records import (
    MARKER,
    append,
    asked,
    finished,
    leave,
    round_of,
    scored,
    started,
    write_kit,
    write_run,
)

from wardround.console import events
from wardround.console.events import (
    RunSummary,
    event_message,
    filter_event,
    filter_ledger_entry,
    stream_events,
    summarise,
)
from wardround.console.runs import WatchedRun
from wardround.reports.event_file import START, Chunk, Position, read_after
from wardround.studies.watched_runs import CoordinatorRuns, SiteRuns


def test_a_round_is_shown_with_bytes_by_site() -> None:
    event = round_of(4, absent=[["lakeside", "late", "deadline"]])
    event["exchanges"]["take"] = {"harbour": [10, 1, 0.1, 0.1]}
    assert filter_event(event) == {
        "event": "round",
        "time": event["time"],
        "round": 4,
        "loss": 2.0,
        "answered": 2,
        "absent": [["lakeside", "late", "deadline"]],
        "clipped": 0,
        "down": 4_000,
        "up": 2_000,
        "seconds": 1.0,
        "figures": {},
        "used": {},
        "votes": {},
        "rejected": False,
        "notice": "",
        "exchanges": {"harbour": [2_010, 1_001], "hillside": [2_000, 1_000]},
    }


def test_requests_outside_of_rounds_are_shown_with_their_bytes() -> None:
    shown = filter_event(asked(4, down=500, up=20))
    assert shown is not None
    assert (shown["round"], shown["exchanges"]) == (4, {"harbour": [500, 20], "lakeside": [500, 20]})
    failed = filter_event(asked(4, down=500, up=20) | {"event": "round_failed", "round": 5})
    assert failed is not None
    assert failed["exchanges"] == shown["exchanges"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ({"event": "gathered"}, {"present": []}),
        ({"event": "asked"}, {"round": None, "exchanges": {}}),
        ({"event": "scored", "round": 2}, {"round": 2, "f1": {}, "mean_f1": None}),
        ({"event": "diverged", "round": 2, "sites": None}, {"round": 2, "sites": []}),
        ({"event": "round_failed", "round": 2}, {"round": 2, "reason": "", "exchanges": {}}),
    ],
)
def test_a_missing_field_is_empty(line: dict[str, Any], shown: dict[str, Any]) -> None:
    assert filter_event(line) == {"event": line["event"], "time": None} | shown


def test_a_round_with_nothing_but_its_number() -> None:
    shown = filter_event({"event": "round", "round": 2})
    assert shown is not None
    assert (shown["absent"], shown["figures"], shown["exchanges"], shown["loss"]) == ([], {}, {}, None)


@pytest.mark.parametrize("kind", ["round", "scored", "round_failed", "epoch"])
def test_a_round_or_epoch_without_its_number_is_not_shown(kind: str) -> None:
    assert filter_event({"event": kind, "loss": 0.5}) is None


def test_an_absence_without_a_valid_site_is_left_out() -> None:
    shown = filter_event(
        round_of(1) | {"absent": [["", "late", "deadline"], ["harbour", "late"], [MARKER, "late", ""]]}
    )
    assert shown is not None
    assert shown["absent"] == []


def test_scores_are_shown() -> None:
    shown = filter_event(scored(10))
    assert shown is not None
    assert shown["f1"] == {"harbour": 0.6, "hillside": 0.25, "lakeside": 0.75}


def test_at_one_site_the_last_scores_are_shown() -> None:
    shown = filter_event({"time": 1.0, "event": "finished", "strict_f1": 0.5, "relaxed_f1": 0.75, "other": 3})
    assert shown is not None
    assert shown["scores"] == {"strict_f1": 0.5, "relaxed_f1": 0.75}
    assert (shown["f1"], shown["rounds"]) == ({}, None)


def test_only_name_and_time_of_an_unknown_event_are_shown() -> None:
    assert filter_event({"time": 2.0, "event": "moved", "note": MARKER}) == {"event": "moved", "time": 2.0}


@pytest.mark.parametrize("event", [{}, {"event": 3}, {"event": MARKER}, {"event": ""}])
def test_a_line_without_an_event_name_is_not_shown(event: dict[str, Any]) -> None:
    assert filter_event(event) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, "3", None, [1]])
def test_a_value_that_is_not_a_number_is_none(value: Any) -> None:
    shown = filter_event(round_of(1) | {"loss": value})
    assert shown is not None
    assert shown["loss"] is None
    json.dumps(shown, allow_nan=False)


def planted(value: Any) -> Any:
    """The same shape with a sentence of a note in place of every text, and beside it."""
    if isinstance(value, dict):
        return {name: planted(part) for name, part in value.items() if name != "event"} | {MARKER: MARKER}
    if isinstance(value, list):
        return [*map(planted, value), MARKER]
    return MARKER if isinstance(value, str) else value


@pytest.mark.parametrize(
    "event",
    [
        round_of(4, absent=[["lakeside", "late", "deadline"]]) | {"figures": {"tags/agreement": 0.5}},
        scored(4),
        finished(4),
        {"event": "absent", "step": "score", "round": 4, "site": "harbour", "absence": "failed", "code": "shapes"},
        asked(4, down=500, up=20),
        {"event": "diverged", "round": 4, "sites": ["harbour"]},
        {"event": "caught_up", "round": 4, "sites": ["harbour"]},
        {"event": "gathered", "present": ["harbour"]},
        {"event": "waiting", "least": 2, "sites": 3},
        {"event": "started", "round": 0, "sites": 3, "versions": {"wardround": "1"}},
        {"event": "epoch", "epoch": 1, "loss": 0.5, "dev_f1": 0.5, "best": True},
    ],
    ids=lambda event: event["event"],
)
def test_free_text_never_passes_the_filter(event: dict[str, Any]) -> None:
    shown = filter_event(planted(event) | {"event": event["event"]})
    assert "Quillfeather" not in json.dumps(shown)


def test_a_rejected_round_says_so() -> None:
    voted = {"used": {"harbour": 0.25}, "votes": {"harmful": 2, "cast": 3}}
    marked = {**voted, "rejected": True, "notice": "not taken\x1b[2J"}
    shown = filter_event(round_of(4) | marked)
    assert shown is not None
    assert {name: shown[name] for name in marked} == {**marked, "notice": "not taken␛[2J"}


def test_the_reason_of_a_failed_round_is_neutralised() -> None:
    shown = filter_event({"event": "round_failed", "time": 1.0, "round": 3, "reason": "1 of 3 sites answered\x1b[2J"})
    assert shown is not None
    assert shown["reason"] == "1 of 3 sites answered␛[2J"


def test_ledger_entries_are_shown_without_their_content() -> None:
    entry = {
        "time": 5.0,
        "study": MARKER,
        "round": 2,
        "step": "give",
        "arrays": [[MARKER, [3]]],
        "values": [MARKER],
        "blobs": {MARKER: 10},
        "bytes": 120,
        "digest": "ab",
        "mechanism": "sealed",
        "weight": 12.0,
        "previous": "cd",
    }
    assert filter_ledger_entry(entry) == {
        "event": "sent",
        "time": 5.0,
        "round": 2,
        "step": "give",
        "bytes": 120,
        "mechanism": "sealed",
    }
    assert filter_ledger_entry({"event": "round"}) is None
    assert filter_ledger_entry(entry | {"bytes": None}) is None


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
        frames: AsyncIterator[str] = stream_events(record, position, filter_event)
        assert await anext(frames) == "retry: 1000\n\n"
        found = [await anext(frames)]
        for happen in meanwhile:
            happen()
            with anyio.fail_after(20):
                found.append(await anext(frames))
        return found

    return anyio.run(listen)


def test_a_browser_receives_existing_lines_then_each_new_one(record: Path) -> None:
    first, second = heard(record, START, [lambda: append(record.parent, round_of(2))])
    position, body = parsed(first)
    assert [event["event"] for event in body["events"]] == ["started", "round"]
    assert position.offset == len(record.read_bytes()) - len(json.dumps(round_of(2))) - 1
    later, body = parsed(second)
    assert [event["round"] for event in body["events"]] == [2]
    assert later.offset == record.stat().st_size


def test_a_reconnecting_browser_receives_only_new_lines(record: Path) -> None:
    position = read_after(record).position
    append(record.parent, round_of(2))
    (frame,) = heard(record, position, [])
    assert [event["round"] for event in parsed(frame)[1]["events"]] == [2]


def test_the_first_message_is_sent_even_without_new_events(record: Path) -> None:
    position = read_after(record).position
    (frame,) = heard(record, position, [])
    assert parsed(frame)[0] == position
    assert parsed(frame)[1]["events"] == []


def test_another_run_in_the_same_folder_is_a_restart(record: Path) -> None:
    position = read_after(record).position
    record.unlink()
    append(record.parent, round_of(1))
    (frame,) = heard(record, position, [])
    assert parsed(frame)[1]["restarted"]


def test_a_silent_run_sends_keep_alive_messages(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_KEEP_ALIVE_SECONDS", 0.0)
    frames = heard(record, START, [lambda: None])
    assert [len(parsed(frame)[1]["events"]) for frame in frames] == [2, 0]


def test_a_message_is_always_one_line_of_json(record: Path) -> None:
    append(
        record.parent, round_of(2) | {"loss": float("nan"), "absent": [["a", "late", "x\r\ny"], ["a\nb", "late", ""]]}
    )
    frame = event_message(read_after(record), filter_event)
    assert parsed(frame)[1]["events"][-1]["absent"] == [["a", "late", ""]]


def test_an_unreadable_record_is_read_again_later(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [True]

    def read(record: Path, position: Position) -> Chunk:
        if refused:
            raise PermissionError(record)
        return read_after(record, position)

    monkeypatch.setattr(events, "read_after", read)
    first, second = heard(record, START, [refused.clear])
    assert parsed(first)[1]["events"] == []
    assert [event["event"] for event in parsed(second)[1]["events"]] == ["started", "round"]


def watched(folder: Path) -> WatchedRun:
    return CoordinatorRuns(folder).all()[0]


def test_a_running_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a", started(), round_of(1), scored(1), round_of(2))
    assert summarise(watched(tmp_path)) == RunSummary("running", 2, (0.51 + 0.25 + 0.75) / 3, round_of(2)["time"])


def test_a_finished_run_and_one_that_was_restarted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", started(), round_of(1), finished(1))
    assert summarise(watched(tmp_path)).state == "finished"
    append(folder, started(1))
    assert summarise(watched(tmp_path)).state == "running"


def test_a_coordinator_that_waits_for_sites(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"time": 3.0, "event": "waiting", "least": 2, "sites": 3})
    assert summarise(watched(tmp_path)) == RunSummary("waiting", None, None, 3.0)


def test_a_training_at_one_site(tmp_path: Path) -> None:
    epoch = {"time": 9.0, "event": "epoch", "epoch": 7, "loss": 0.5, "dev_f1": 0.625, "best": True}
    write_run(tmp_path / "a", epoch, study="")
    assert summarise(watched(tmp_path)) == RunSummary("running", 7, 0.625, 9.0)


def test_a_site(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit", messages=3)
    found = summarise(SiteRuns(tmp_path).all()[0])
    assert (found.state, found.number, found.f1) == ("running", 3, None)


def test_a_site_that_has_sent_nothing(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit")
    assert summarise(SiteRuns(tmp_path).all()[0]) == RunSummary()


def test_a_site_is_finished_after_it_sent_its_scores(tmp_path: Path) -> None:
    kit = write_kit(tmp_path / "kit", messages=2)
    leave(kit, "finish", 2)
    assert summarise(SiteRuns(tmp_path).all()[0]).state == "finished"
    leave(kit, "restore", 2)  # the coordinator was started again
    assert summarise(SiteRuns(tmp_path).all()[0]).state == "running"


def test_a_site_that_was_away_at_the_end_does_not_end_the_run(tmp_path: Path) -> None:
    gone = {"event": "absent", "step": "finish", "round": 1, "site": "harbour", "absence": "late", "code": "deadline"}
    write_run(tmp_path / "a", started(), round_of(1), gone)
    assert summarise(watched(tmp_path)).state == "running"


def test_a_round_of_hundreds_of_sites_is_found_whole(tmp_path: Path) -> None:
    costs = {f"hospital-{number:03}": [2_000_000, 1_000_000, 0.123456, 0.123456] for number in range(1_000)}
    wide = round_of(7) | {"exchanges": {"give": costs}}
    run = write_run(tmp_path / "a", started(), wide)
    assert (run / "events.jsonl").stat().st_size > 40_000
    assert summarise(watched(tmp_path)) == RunSummary("running", 7, None, wide["time"])


def test_an_unreadable_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "a", started(), round_of(1))
    run = watched(tmp_path)

    def refuse(path: Path, mode: str = "r") -> None:
        raise PermissionError(path, mode)

    monkeypatch.setattr(Path, "open", refuse)
    assert summarise(run) == RunSummary("unreadable")
