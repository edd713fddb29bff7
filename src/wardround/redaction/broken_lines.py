"""Identifiers that are divided by a line break: the text with such breaks removed, and where they were.

A break is removed if the characters around it indicate that a line was wrapped inside an identifier: at a hyphen,
slash, full stop or colon between digits, in a mail or web address, in a divided word, between two digits. Tables and
lists also have digits on both sides of their breaks, so a match across a break must be likely to be one identifier:
see `JoinedText.is_one_identifier`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from enum import Enum, auto
from typing import NamedTuple

from wardround.redaction.word_lists import MONTH_NAMES
from wardround.text.document import Range
from wardround.text.views import View, edited

__all__ = ["JoinedText", "joined_texts"]

_NEAR = 64  # characters on either side that determine the kind of a break
_AROUND = 200  # characters on either side that are searched for an identifier across the break
# One break, not a blank line. A match starts at the first blank and does not backtrack.
_BREAK = re.compile(r"(?<![ \t])[ \t]*+(?:\r\n|\n|\r)[ \t]*+(?![\r\n])")
_LETTERS_BEFORE, _LETTERS_AFTER = re.compile(r"[^\W\d_]+\Z"), re.compile(r"[^\W\d_]+")
_DIGITS_BEFORE, _DIGITS_AFTER = re.compile(r"\d+\Z"), re.compile(r"\d+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_MONTHS = frozenset(name for names in MONTH_NAMES.values() for name, _ in names if len(name) > 4)


class _Kind(Enum):
    """The kind of a break, by the characters around it."""

    SIGN = auto()  # beside a sign of an identifier, or in the name of a month
    STOP = auto()  # beside a full stop between digits, or a sign between digits and letters; may also end a sentence
    HYPHEN = auto()  # after the hyphen of a divided word
    DIGITS = auto()  # between two digits


_KINDS = [
    (re.compile(rf"(?:{before})\Z"), re.compile(after), kind)
    for before, after, kind in (
        (r"[\d)][-/:]", r"\d", _Kind.SIGN),
        (r"\d", r"[-/:]\d", _Kind.SIGN),
        (r"[\d)]\.", r"\d", _Kind.STOP),
        (r"\d", r"\.\d", _Kind.STOP),
        (r"\d[-/]", r"[^\W\d_]", _Kind.STOP),
        (r"[^\W\d_][-/]", r"\d", _Kind.STOP),
        (r"\w@|\w://", r"\w", _Kind.SIGN),
        (r"\w", r"@\w", _Kind.SIGN),
        (r"(?:@|\bwww\.|://)[^\s@]*[./_-]", r"[a-z0-9]", _Kind.SIGN),
        (r"(?:@|\bwww\.|://)[^\s@]*\w", r"\.[a-z]", _Kind.SIGN),
        (r"[^\W\d_]-", r"[^\W\d_]", _Kind.HYPHEN),
        (r"\d", r"\d\d", _Kind.DIGITS),
    )
]
# Their forms contain signs, so a number on the next line does not complete them by chance.
_CUT_BETWEEN_DIGITS = frozenset(("DATE", "PHONE", "SSN", "IPADDR"))
_LEAST_PART, _LEAST_NUMBER = 3, 7  # digits of a bare number: on either side of a break, and in total
_LEAST_ACCOUNT = 11  # digits of a number in groups, if a break replaced a blank


class _Break(NamedTuple):
    place: Range
    kind: _Kind
    parts: tuple[str, str] = ("", "")  # the digits before and after it, if it is between digits


class JoinedText(NamedTuple):
    """The text without the breaks; only `parts`, around the former breaks, need to be searched."""

    view: View
    parts: list[Range]
    breaks: list[_Break]
    spaced: bool  # each break between digits is replaced by a blank

    def is_one_identifier(self, found: Range, type_: str) -> bool:
        """Return whether a match in the view crosses a break and is likely to be one identifier."""
        places = self.view.shown_starts
        crossed = self.breaks[bisect_right(places, found.start) : bisect_left(places, found.end)]
        # What follows a number and a full stop is often not part of it.
        if not crossed or (type_ == "IDNUM" and any(break_.kind is _Kind.STOP for break_ in crossed)):
            return False
        between_digits = [break_ for break_ in crossed if break_.kind is _Kind.DIGITS]
        if not between_digits or (type_ in _CUT_BETWEEN_DIGITS and not self.spaced):
            return True
        digits = sum(map(str.isdigit, self.view.text[found.start : found.end]))
        if type_ != "IDNUM" or digits < (_LEAST_ACCOUNT if self.spaced else _LEAST_NUMBER):
            return False
        parts = [part for break_ in between_digits for part in break_.parts]
        return self.spaced or all(len(part) >= _LEAST_PART and not _YEAR.fullmatch(part) for part in parts)


def joined_texts(text: str) -> list[JoinedText]:
    """Return the text with wrapped lines joined, in one or two ways; nothing if no break looks like a wrap."""
    breaks = [found for match in _BREAK.finditer(text) if (found := _break_inside_identifier(text, match)) is not None]
    if not breaks:
        return []
    between_digits = any(break_.kind is _Kind.DIGITS for break_ in breaks)
    joined: list[JoinedText] = []
    for spaced in (False, True) if between_digits else (False,):
        view = edited(text, ((*b.place, " " if spaced and b.kind is _Kind.DIGITS else "") for b in breaks))
        parts: list[Range] = []
        for shown_start, shown_end in zip(view.shown_starts, view.shown_ends, strict=True):
            start, end = max(0, shown_start - _AROUND), min(len(view.text), shown_end + _AROUND)
            if parts and start <= parts[-1].end:
                start = parts.pop().start
            parts.append(Range(start, end))
        joined.append(JoinedText(view, parts, breaks, spaced))
    return joined


def _break_inside_identifier(text: str, match: re.Match[str]) -> _Break | None:
    """Return the break if it looks like a wrap inside an identifier, otherwise None."""
    before = text[max(0, match.start() - _NEAR) : match.start()]
    after = text[match.end() : match.end() + _NEAR]
    kind = next((kind for left, right, kind in _KINDS if right.match(after) and left.search(before)), None)
    if kind is _Kind.DIGITS:
        left, right = _DIGITS_BEFORE.search(before), _DIGITS_AFTER.match(after)
        return _Break(Range(*match.span()), kind, (left[0] if left else "", right[0] if right else ""))
    if kind is _Kind.HYPHEN:
        return _Break(Range(match.start() - 1, match.end()), kind)
    if kind is None:
        left, right = _LETTERS_BEFORE.search(before), _LETTERS_AFTER.match(after)
        if left is None or right is None or (left[0] + right[0]).lower() not in _MONTHS:
            return None
    return _Break(Range(*match.span()), kind or _Kind.SIGN)
