"""The Okabe-Ito colours: eight that people with any colour vision can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

__all__ = ["BLACK", "FAILED", "LATE", "NOT_ASKED", "REFUSED", "SERIES", "TOOK_PART", "ink_on", "type_colour"]

BLACK, WHITE = "#000000", "#ffffff"
_ORANGE, _SKY_BLUE, _GREEN, _YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
_BLUE, _VERMILLION, _PURPLE = "#0072b2", "#d55e00", "#cc79a7"

# Without yellow, which is invisible as a thin line on white.
SERIES = (_BLUE, _VERMILLION, _GREEN, _PURPLE, _ORANGE, _SKY_BLUE, BLACK)
_BACKGROUNDS = (_ORANGE, _SKY_BLUE, _GREEN, _YELLOW, _BLUE, _VERMILLION, _PURPLE)
# The states of a site in a round.
TOOK_PART, LATE, FAILED, REFUSED, NOT_ASKED = _BLUE, _ORANGE, _VERMILLION, BLACK, "#e4e7ea"


def type_colour(type_: str, types: Sequence[str] = ()) -> str:
    """Return the background colour of a type: by its position in `types`, otherwise by its name.

    Both give the same colour in every document and run; only the first keeps up to seven types distinct.
    """
    position = types.index(type_) if type_ in types else crc32(type_.encode())
    return _BACKGROUNDS[position % len(_BACKGROUNDS)]


def ink_on(background: str) -> str:
    """Return black or white, whichever has more contrast on a `#rrggbb` background."""
    channels = [int(background[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    # Contrast as WCAG defines it: (lighter + 0.05) / (darker + 0.05).
    return BLACK if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else WHITE
