from __future__ import annotations

import json
from typing import Any

import pytest
from tests.console.records import MARKER, asked, finished, round_of, scored

from wardround.console.shown import shown_entry, shown_event


def test_a_round_is_shown_with_bytes_by_site() -> None:
    event = round_of(4, absent=[["lakeside", "late", "deadline"]])
    event["exchanges"]["take"] = {"harbour": [10, 1, 0.1, 0.1]}
    assert shown_event(event) == {
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
        "exchanges": {"harbour": [2_010, 1_001], "hillside": [2_000, 1_000]},
    }


def test_what_was_asked_beside_the_rounds_is_shown_with_its_bytes() -> None:
    shown = shown_event(asked(4, down=500, up=20))
    assert shown is not None
    assert (shown["round"], shown["exchanges"]) == (4, {"harbour": [500, 20], "lakeside": [500, 20]})
    failed = shown_event(asked(4, down=500, up=20) | {"event": "round_failed", "round": 5})
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
def test_a_field_that_a_line_lacks_is_empty(line: dict[str, Any], shown: dict[str, Any]) -> None:
    assert shown_event(line) == {"event": line["event"], "time": None} | shown


def test_a_round_with_nothing_but_its_number() -> None:
    shown = shown_event({"event": "round", "round": 2})
    assert shown is not None
    assert (shown["absent"], shown["figures"], shown["exchanges"], shown["loss"]) == ([], {}, {}, None)


@pytest.mark.parametrize("kind", ["round", "scored", "round_failed", "epoch"])
def test_a_round_or_epoch_without_its_number_is_not_shown(kind: str) -> None:
    assert shown_event({"event": kind, "loss": 0.5}) is None


def test_an_absence_of_nobody_is_left_out() -> None:
    shown = shown_event(round_of(1) | {"absent": [["", "late", "deadline"], ["harbour", "late"], [MARKER, "late", ""]]})
    assert shown is not None
    assert shown["absent"] == []


def test_scores_are_shown() -> None:
    shown = shown_event(scored(10))
    assert shown is not None
    assert shown["f1"] == {"harbour": 0.6, "hillside": 0.25, "lakeside": 0.75}


def test_at_one_site_the_last_scores_are_shown() -> None:
    shown = shown_event({"time": 1.0, "event": "finished", "strict_f1": 0.5, "relaxed_f1": 0.75, "other": 3})
    assert shown is not None
    assert shown["scores"] == {"strict_f1": 0.5, "relaxed_f1": 0.75}
    assert (shown["f1"], shown["rounds"]) == ({}, None)


def test_of_an_unknown_event_only_its_name_and_time_are_shown() -> None:
    assert shown_event({"time": 2.0, "event": "moved", "note": MARKER}) == {"event": "moved", "time": 2.0}


@pytest.mark.parametrize("event", [{}, {"event": 3}, {"event": MARKER}, {"event": ""}])
def test_a_line_without_a_name_is_not_shown(event: dict[str, Any]) -> None:
    assert shown_event(event) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, "3", None, [1]])
def test_what_is_no_number_is_none(value: Any) -> None:
    shown = shown_event(round_of(1) | {"loss": value})
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
def test_no_text_passes_wherever_it_stands(event: dict[str, Any]) -> None:
    shown = shown_event(planted(event) | {"event": event["event"]})
    assert "Quillfeather" not in json.dumps(shown)


def test_why_a_round_failed_is_shown_without_what_could_speak_to_a_screen() -> None:
    shown = shown_event({"event": "round_failed", "time": 1.0, "round": 3, "reason": "1 of 3 sites answered\x1b[2J"})
    assert shown is not None
    assert shown["reason"] == "1 of 3 sites answered␛[2J"


def test_of_a_ledger_what_left_and_not_what_was_in_it() -> None:
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
    assert shown_entry(entry) == {
        "event": "sent",
        "time": 5.0,
        "round": 2,
        "step": "give",
        "bytes": 120,
        "mechanism": "sealed",
    }
    assert shown_entry({"event": "round"}) is None
    assert shown_entry(entry | {"bytes": None}) is None
