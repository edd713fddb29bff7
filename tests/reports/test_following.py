from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.reports.following import START, Mark, last_of, read_on

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


def test_what_is_there_is_read_and_then_only_what_is_new(record: Path) -> None:
    piece = read_on(record)
    assert piece.events == ({"n": 1}, {"n": 2})
    assert piece.mark == Mark(NAME, 18)
    assert not piece.anew
    assert read_on(record, piece.mark).events == ()
    append(record, b'{"n": 3}\n')
    later = read_on(record, piece.mark)
    assert later.events == ({"n": 3},)
    assert later.mark == Mark(NAME, 27)


def test_a_line_without_its_end_waits_for_it(record: Path) -> None:
    append(record, b'{"n": 3')
    piece = read_on(record)
    assert piece.events == ({"n": 1}, {"n": 2})
    append(record, b"}\n")
    assert read_on(record, piece.mark).events == ({"n": 3},)


def test_a_torn_line_is_passed_over_once_another_follows(record: Path) -> None:
    append(record, b'{"n": 3')
    mark = read_on(record).mark
    append(record, b'\n{"n": 4}\n')  # as a run folder goes on after a crash
    assert read_on(record, mark).events == ({"n": 4},)


def test_lines_that_are_no_tables_are_passed_over(record: Path) -> None:
    append(record, b'[3]\nnull\n\xff\xfe\n\n{"n": 4}\n')
    assert read_on(record).events == ({"n": 1}, {"n": 2}, {"n": 4})


def test_another_file_in_its_place_is_read_from_its_beginning(record: Path) -> None:
    mark = read_on(record).mark
    record.write_bytes(b'{"m": 1}\n{"m": 2}\n{"m": 3}\n')
    piece = read_on(record, mark)
    assert piece.anew
    assert piece.events == ({"m": 1}, {"m": 2}, {"m": 3})
    assert not read_on(record, piece.mark).anew


def test_a_file_that_became_shorter_is_read_from_its_beginning(record: Path) -> None:
    mark = read_on(record).mark
    record.write_bytes(FIRST)
    piece = read_on(record, mark)
    assert (piece.anew, piece.events) == (True, ({"n": 1},))


def test_a_file_that_was_emptied_makes_what_was_read_void(record: Path) -> None:
    mark = read_on(record).mark
    record.write_bytes(b"")
    piece = read_on(record, mark)
    assert (piece.anew, piece.mark) == (True, START)


def test_a_file_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    piece = read_on(tmp_path / "later.jsonl")
    assert (piece.events, piece.mark, piece.anew) == ((), START, False)


def test_a_file_that_is_gone_for_a_moment_keeps_its_place(record: Path) -> None:
    mark = read_on(record).mark
    record.rename(record.with_name("away"))
    assert read_on(record, mark).mark == mark


def test_a_line_longer_than_a_piece_is_read_whole(record: Path) -> None:
    append(record, json.dumps({"long": "x" * 100}).encode() + b"\n")
    piece = read_on(record, Mark(NAME, 18), most=10)
    assert piece.events == ({"long": "x" * 100},)


@given(most=st.integers(1, 400), lines=st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_in_pieces_of_any_size_no_line_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, most: int, lines: list[int]
) -> None:
    record = tmp_path_factory.mktemp("pieces") / "record.jsonl"
    mark, found = START, []
    for number in lines:
        append(record, json.dumps({"n": number}).encode() + b"\n")
        piece = read_on(record, mark, most=most)
        mark = Mark.parse(str(piece.mark))  # as a browser gives it back
        found += [event["n"] for event in piece.events]
    while (piece := read_on(record, mark, most=most)).events:
        mark = piece.mark
        found += [event["n"] for event in piece.events]
    assert found == lines


@pytest.mark.parametrize("text", ["", "-3", "x", "0123456789abcdef", "0123456789abcdef--1", f"{NAME}-18 ", "../x-1"])
def test_what_is_no_mark_is_the_beginning(text: str) -> None:
    assert Mark.parse(text) == START


def test_a_mark_says_where_it_is() -> None:
    assert str(Mark(NAME, 18)) == f"{NAME}-18"
    assert Mark.parse(f"{NAME}-18") == Mark(NAME, 18)


def test_the_last_lines(record: Path) -> None:
    assert last_of(record) == [{"n": 1}, {"n": 2}]
    assert last_of(record, most=10) == [{"n": 2}]
    append(record, b'{"n": 3')
    assert last_of(record) == [{"n": 1}, {"n": 2}]
    assert last_of(record.with_name("absent")) == []


def test_a_last_line_that_is_longer_than_what_is_read_is_read_whole(record: Path) -> None:
    append(record, json.dumps({"long": "x" * 100}).encode() + b"\n")  # 113 bytes: 10, 40, then 160 are read
    assert last_of(record, most=10) == [{"n": 1}, {"n": 2}, {"long": "x" * 100}]
    append(record, b'{"torn": "' + b"y" * 500)
    assert last_of(record, most=10)[-1] == {"long": "x" * 100}


def test_a_file_without_a_whole_line_has_no_last_ones(record: Path) -> None:
    record.write_bytes(b"x" * 100)
    assert last_of(record, most=10) == []
    record.write_bytes(b"")
    assert last_of(record, most=10) == []
