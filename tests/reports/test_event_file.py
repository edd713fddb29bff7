from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.reports.event_file import START, Position, last_lines, read_after

FIRST = b'{"n": 1}\n'
NAME = sha256(FIRST).hexdigest()[:16]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record.jsonl"
    path.write_bytes(FIRST + b'{"n": 2}\n')
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def test_existing_lines_are_read_once_and_then_only_new_ones(record: Path) -> None:
    chunk = read_after(record)
    assert chunk.events == ({"n": 1}, {"n": 2})
    assert chunk.position == Position(NAME, 18)
    assert not chunk.restarted
    assert read_after(record, chunk.position).events == ()
    append(record, b'{"n": 3}\n')
    later = read_after(record, chunk.position)
    assert later.events == ({"n": 3},)
    assert later.position == Position(NAME, 27)


def test_a_line_without_its_end_waits_for_it(record: Path) -> None:
    append(record, b'{"n": 3')
    chunk = read_after(record)
    assert chunk.events == ({"n": 1}, {"n": 2})
    append(record, b"}\n")
    assert read_after(record, chunk.position).events == ({"n": 3},)


def test_a_torn_line_is_skipped_once_another_follows(record: Path) -> None:
    append(record, b'{"n": 3')
    position = read_after(record).position
    append(record, b'\n{"n": 4}\n')  # as a run folder goes on after a crash
    assert read_after(record, position).events == ({"n": 4},)


def test_lines_that_are_not_objects_are_skipped(record: Path) -> None:
    append(record, b'[3]\nnull\n\xff\xfe\n\n{"n": 4}\n')
    assert read_after(record).events == ({"n": 1}, {"n": 2}, {"n": 4})


def test_a_replaced_file_is_read_from_the_start(record: Path) -> None:
    position = read_after(record).position
    record.write_bytes(b'{"m": 1}\n{"m": 2}\n{"m": 3}\n')
    chunk = read_after(record, position)
    assert chunk.restarted
    assert chunk.events == ({"m": 1}, {"m": 2}, {"m": 3})
    assert not read_after(record, chunk.position).restarted


def test_a_shortened_file_is_read_from_the_start(record: Path) -> None:
    position = read_after(record).position
    record.write_bytes(FIRST)
    chunk = read_after(record, position)
    assert (chunk.restarted, chunk.events) == (True, ({"n": 1},))


def test_an_emptied_file_is_a_restart(record: Path) -> None:
    position = read_after(record).position
    record.write_bytes(b"")
    chunk = read_after(record, position)
    assert (chunk.restarted, chunk.position) == (True, START)


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    chunk = read_after(tmp_path / "later.jsonl")
    assert (chunk.events, chunk.position, chunk.restarted) == ((), START, False)


def test_a_temporarily_missing_file_keeps_its_position(record: Path) -> None:
    position = read_after(record).position
    record.rename(record.with_name("away"))
    assert read_after(record, position).position == position


def test_a_line_longer_than_a_piece_is_read_whole(record: Path) -> None:
    append(record, json.dumps({"long": "x" * 100}).encode() + b"\n")
    chunk = read_after(record, Position(NAME, 18), limit=10)
    assert chunk.events == ({"long": "x" * 100},)


@given(limit=st.integers(1, 400), lines=st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_no_line_is_lost_or_repeated_at_any_chunk_size(
    tmp_path_factory: pytest.TempPathFactory, limit: int, lines: list[int]
) -> None:
    record = tmp_path_factory.mktemp("pieces") / "record.jsonl"
    position, found = START, []
    for number in lines:
        append(record, json.dumps({"n": number}).encode() + b"\n")
        chunk = read_after(record, position, limit=limit)
        position = Position.parse(str(chunk.position))  # as a browser gives it back
        found += [event["n"] for event in chunk.events]
    while (chunk := read_after(record, position, limit=limit)).events:
        position = chunk.position
        found += [event["n"] for event in chunk.events]
    assert found == lines


@pytest.mark.parametrize("text", ["", "-3", "x", "0123456789abcdef", "0123456789abcdef--1", f"{NAME}-18 ", "../x-1"])
def test_an_invalid_position_is_the_start(text: str) -> None:
    assert Position.parse(text) == START


def test_a_position_names_file_and_offset() -> None:
    assert str(Position(NAME, 18)) == f"{NAME}-18"
    assert Position.parse(f"{NAME}-18") == Position(NAME, 18)


def test_the_last_lines(record: Path) -> None:
    assert last_lines(record) == [{"n": 1}, {"n": 2}]
    assert last_lines(record, limit=10) == [{"n": 2}]
    append(record, b'{"n": 3')
    assert last_lines(record) == [{"n": 1}, {"n": 2}]
    assert last_lines(record.with_name("absent")) == []


def test_a_last_line_longer_than_the_limit_is_read_completely(record: Path) -> None:
    append(record, json.dumps({"long": "x" * 100}).encode() + b"\n")  # 113 bytes: 10, 40, then 160 are read
    assert last_lines(record, limit=10) == [{"n": 1}, {"n": 2}, {"long": "x" * 100}]
    append(record, b'{"torn": "' + b"y" * 500)
    assert last_lines(record, limit=10)[-1] == {"long": "x" * 100}


def test_a_file_without_a_whole_line_has_no_last_ones(record: Path) -> None:
    record.write_bytes(b"x" * 100)
    assert last_lines(record, limit=10) == []
    record.write_bytes(b"")
    assert last_lines(record, limit=10) == []
