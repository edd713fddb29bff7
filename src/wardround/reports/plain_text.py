"""Text from a corpus or another site, made harmless before a person's terminal or browser sees it."""

from __future__ import annotations

import re

__all__ = ["neutralise"]

_KEPT = {0x09, 0x0A}  # tab and line feed
# These reorder what is displayed, so that a reader sees another text than the one that is there.
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


def neutralise(text: str) -> str:
    """The text with control characters shown as pictures; no escape code survives.

    Character for character, so that offsets stay true. Tabs and line ends remain (`\\r\\n` as blank and `\\n`).
    """
    return _WINDOWS_LINE_END.sub(" ", text).translate(_TABLE)
