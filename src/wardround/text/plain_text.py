"""Text for people: untrusted text made safe for a terminal or browser, and sizes in bytes."""

from __future__ import annotations

import re
from html import escape

__all__ = ["html_text", "neutralise", "size_text"]

_KEPT = {0x09, 0x0A}  # tab and line feed
# These reorder what is displayed, so that a reader sees a different text.
_REORDERING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINE_BREAKS = (0x2028, 0x2029)
_PICTURES = 0x2400  # U+2400 to U+2420 are pictures of the control characters 0 to 32
_PICTURE_OF_DELETE, _REPLACEMENT = "\u2421", "\ufffd"

_TABLE: dict[int, str] = {
    **{code: chr(_PICTURES + code) for code in range(0x20) if code not in _KEPT},
    0x7F: _PICTURE_OF_DELETE,
    **dict.fromkeys((*range(0x80, 0xA0), *_REORDERING, *_LINE_BREAKS, *range(0xD800, 0xE000)), _REPLACEMENT),
}
_WINDOWS_LINE_END = re.compile(r"\r(?=\n)")
_UNITS = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def neutralise(text: str) -> str:
    """Replace control characters by visible pictures, so that no escape code survives.

    The length stays the same, so that offsets remain valid. Tabs and line ends stay (`\\r\\n` as space and `\\n`).
    """
    return _WINDOWS_LINE_END.sub(" ", text).translate(_TABLE)


def html_text(text: str) -> str:
    """Return text for HTML: control characters as pictures, markup escaped."""
    return escape(neutralise(text))


def size_text(count: int) -> str:
    """Return a number of bytes as text, e.g. `12.3 MB`; below a kilobyte, `512 B`."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"
