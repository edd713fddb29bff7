"""Read a JSONL file while it grows: every complete line after a position, exactly once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.parsing import parse_json

__all__ = ["START", "Chunk", "Position", "last_lines", "read_after"]

_CHUNK = 262_144  # bytes read at once
_LONGEST_LINE = 4_000_000  # bytes; we write no longer ones
_POSITION = re.compile(r"([0-9a-f]{16})-([0-9]{1,15})")


@dataclass(frozen=True)
class Position:
    """A place between two lines: a byte offset in the file whose first line has this digest."""

    file: str = ""
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.file}-{self.offset}" if self.file else ""

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse the text of a position; any other text is the start."""
        found = _POSITION.fullmatch(text)
        return cls(found[1], int(found[2])) if found else START


START = Position()


@dataclass(frozen=True)
class Chunk:
    """The lines after a position, and the position after them."""

    events: tuple[dict[str, Any], ...]
    position: Position
    restarted: bool = False  # the file was replaced since the position was taken: discard what was read from it


def read_after(path: Path, position: Position = START, *, limit: int = _CHUNK) -> Chunk:
    """Return the complete lines after `position`, up to about `limit` bytes; an incomplete line is left for later.

    A line torn by a crash is skipped once another follows it. A missing file has no lines.
    """
    try:
        with path.open("rb") as stream:
            first = stream.readline(_LONGEST_LINE)
            if not first.endswith(b"\n"):
                return Chunk((), START, restarted=bool(position.file))
            name = sha256(first).hexdigest()[:16]
            size = stream.seek(0, 2)
            is_same_file = position.file == name and position.offset <= size
            start = stream.seek(position.offset if is_same_file else 0)
            data = stream.read(limit)
            if not data.endswith(b"\n"):
                data = _complete_lines(data + stream.readline(_LONGEST_LINE))
    except FileNotFoundError:
        return Chunk((), position)
    restarted = bool(position.file) and not is_same_file
    return Chunk(tuple(_events(data)), Position(name, start + len(data)), restarted)


def last_lines(path: Path, *, limit: int = 65_536) -> list[dict[str, Any]]:
    """Return the complete lines in the last `limit` bytes of a file, oldest first; read further back if none is."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            while True:
                stream.seek(max(0, size - limit))
                data = stream.read(min(size, limit))
                lines = data if size <= limit else data.partition(b"\n")[2]
                found = list(_events(_complete_lines(lines)))
                if found or limit >= min(size, _LONGEST_LINE):
                    return found
                limit *= 4
    except FileNotFoundError:
        return []


def _complete_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            event = parse_json(line, finite=False)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
