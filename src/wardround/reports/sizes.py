"""Numbers of bytes in words."""

from __future__ import annotations

__all__ = ["size_text"]

_UNITS = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def size_text(count: int) -> str:
    """`12.3 MB`; of less than a kilobyte, every byte."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"
