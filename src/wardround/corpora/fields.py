"""What stands in one field of a file: numbers, offsets, lists of concept ids, and values without tabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wardround.errors import CorpusError

__all__ = ["OFFSETS", "check_plain", "is_plain", "join_concepts", "offset_pairs", "split_concepts", "whole_number"]

# Twelve digits are more than any file has characters, and few enough to be converted at once.
OFFSETS = r"[0-9]{1,12} [0-9]{1,12}(?:;[0-9]{1,12} [0-9]{1,12})*"
_NUMBER = re.compile(r"[0-9]{1,12}")
_PARTS_FIELDS = re.compile(r"[\t\r\n]")
_NO_CONCEPT = ("", "-", "-1")


def whole_number(field: str) -> int | None:
    """The number, or None where it is none or too long to be an offset."""
    return int(field) if _NUMBER.fullmatch(field) else None


def offset_pairs(offsets: str) -> list[tuple[int, int]]:
    """`"3 7;12 15"`, which `OFFSETS` matches, as [(3, 7), (12, 15)]."""
    pairs = (pair.split(" ") for pair in offsets.split(";"))
    return [(int(start), int(end)) for start, end in pairs]


def split_concepts(field: str, separators: str) -> tuple[str, ...]:
    """The ids in `field`, parted by any of the separators."""
    parts = re.split(f"[{re.escape(separators)}]", field) if separators else [field]
    return tuple(part.strip() for part in parts if part.strip() not in _NO_CONCEPT)


def join_concepts(concepts: Sequence[str], separators: str) -> str:
    """The ids parted by the first separator; what would not be read back is a `CorpusError`."""
    joined = separators[:1].join(concepts)
    if joined:
        check_plain("a concept id", joined)
    if split_concepts(joined, separators) != tuple(concepts):
        raise CorpusError(f"a concept id is empty, '-', '-1', or holds a blank at its ends or one of {separators!r}")
    return joined


def is_plain(value: str) -> bool:
    """Whether the value holds neither a tab nor a line end."""
    return not _PARTS_FIELDS.search(value)


def check_plain(what: str, value: str) -> None:
    """Refuse a value that cannot stand in a column."""
    if not value or not is_plain(value):
        raise CorpusError(f"{what} is empty or holds a tab or a line end, which a column cannot; rename it")
