"""Reading a growing JSONL file: what came since a mark, line by line, none twice and none passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from wardround.parsing import parse_json

__all__ = ["START", "Mark", "Piece", "last_of", "read_on"]

_PIECE = 262_144  # bytes read at once
_LONGEST_LINE = 4_000_000  # bytes; longer ones are no lines of ours
_MARK = re.compile(r"([0-9a-f]{16})-([0-9]{1,15})")


@dataclass(frozen=True)
class Mark:
    """A place between two lines: behind so many bytes of the file whose first line has this digest."""

    file: str = ""
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.file}-{self.offset}" if self.file else ""

    @classmethod
    def parse(cls, text: str) -> Mark:
        """The mark that was written so; what is no mark is the beginning."""
        found = _MARK.fullmatch(text)
        return cls(found[1], int(found[2])) if found else START


START = Mark()


@dataclass(frozen=True)
class Piece:
    """Lines behind a mark, and the mark behind them."""

    events: tuple[dict[str, Any], ...]
    mark: Mark
    anew: bool = False  # another file lies there than the mark was made in: what was read of that no longer stands


def read_on(path: Path, mark: Mark = START, *, most: int = _PIECE) -> Piece:
    """The whole lines behind `mark`, as far as about `most` bytes; a line without its end is left for later.

    A line that a crash tore is passed over once another follows it. A file that is not there yet has no lines.
    """
    try:
        with path.open("rb") as stream:
            return _read_on(stream, mark, most)
    except FileNotFoundError:
        return Piece((), mark)


def last_of(path: Path, *, most: int = 65_536) -> list[dict[str, Any]]:
    """The whole lines in the last `most` bytes of a file, oldest first; where none is whole, of more of them."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            while not (found := _end_of(stream, size, most)) and most < min(size, _LONGEST_LINE):
                most *= 4
            return found
    except FileNotFoundError:
        return []


def _end_of(stream: IO[bytes], size: int, most: int) -> list[dict[str, Any]]:
    stream.seek(max(0, size - most))
    data = stream.read(min(size, most))
    whole = data if size <= most else data.partition(b"\n")[2]
    return list(_events(_up_to_the_last_end(whole)))


def _read_on(stream: IO[bytes], mark: Mark, most: int) -> Piece:
    first = stream.readline(_LONGEST_LINE)
    if not first.endswith(b"\n"):
        return Piece((), START, anew=bool(mark.file))
    name = sha256(first).hexdigest()[:16]
    size = stream.seek(0, 2)
    stands = mark.file == name and mark.offset <= size
    start = stream.seek(mark.offset if stands else 0)
    data = stream.read(most)
    if not data.endswith(b"\n"):
        data = _up_to_the_last_end(data + stream.readline(_LONGEST_LINE))
    return Piece(tuple(_events(data)), Mark(name, start + len(data)), anew=bool(mark.file) and not stands)


def _up_to_the_last_end(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            event = parse_json(line, finite=False)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
