"""Offsets in UTF-16 code units, as Java and JavaScript count them, and in code points, as documents do."""

from __future__ import annotations

from itertools import accumulate

__all__ = ["Utf16Offsets"]

_LAST_OF_ONE_UNIT = "\uffff"


class Utf16Offsets:
    """Converts offsets in one text; they differ only after a character beyond U+FFFF, such as an emoji."""

    def __init__(self, text: str) -> None:
        """Count the code units of a text that needs it."""
        self._units: list[int] | None = None
        if text and max(text) > _LAST_OF_ONE_UNIT:
            self._units = [0, *accumulate(1 + (character > _LAST_OF_ONE_UNIT) for character in text)]
            self._points = {units: points for points, units in enumerate(self._units)}

    def to_code_points(self, offset: int) -> int:
        """Return the offset in code points; one inside a character becomes its end, and one after the text stays so."""
        if self._units is None:
            return offset
        if offset > self._units[-1]:
            return offset
        return self._points.get(offset, self._points.get(offset + 1, offset))

    def to_utf16(self, offset: int) -> int:
        """Return the offset in UTF-16 code units."""
        return offset if self._units is None else self._units[offset]
