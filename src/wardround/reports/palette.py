"""The Okabe-Ito colours: eight that people with any colour vision can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

__all__ = ["ABSENT", "BLACK", "GAVE", "LATE", "NOT_ASKED", "REFUSED", "SERIES", "colour_of_type", "ink_on"]

BLACK, WHITE = "#000000", "#ffffff"
_ORANGE, _SKY_BLUE, _GREEN, _YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
_BLUE, _VERMILLION, _PURPLE = "#0072b2", "#d55e00", "#cc79a7"

# Yellow is left out where thin lines on white must be seen.
SERIES = (_BLUE, _VERMILLION, _GREEN, _PURPLE, _ORANGE, _SKY_BLUE, BLACK)
_BACKGROUNDS = (_ORANGE, _SKY_BLUE, _GREEN, _YELLOW, _BLUE, _VERMILLION, _PURPLE)
# Of a site in a round.
GAVE, LATE, ABSENT, REFUSED, NOT_ASKED = _BLUE, _ORANGE, _VERMILLION, BLACK, "#e4e7ea"


def colour_of_type(type_: str, types: Sequence[str] = ()) -> str:
    """The background colour of a type: by its place among `types`, else by its name alone.

    Either way it is the same in every document and every run; only the first way keeps up to seven types distinct.
    """
    place = types.index(type_) if type_ in types else crc32(type_.encode())
    return _BACKGROUNDS[place % len(_BACKGROUNDS)]


def ink_on(background: str) -> str:
    """Black or white, whichever is easier to read on a `#rrggbb` background."""
    light = _luminance(background)
    # Contrast as WCAG defines it: (lighter + 0.05) / (darker + 0.05).
    return BLACK if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else WHITE


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
