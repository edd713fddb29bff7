"""A changed copy of a text that maps its offsets back to the original.

>>> view = edited("MR12\\u200b34", [(4, 5, "")])
>>> view.text, view.source(Range(0, 6))
('MR1234', Range(start=0, end=7))
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from wardround.text.document import Range

__all__ = ["Change", "View", "edited"]

Change = tuple[int, int, str]  # start and end in the original text, and the replacement


@dataclass(frozen=True)
class View:
    """A changed text and its edits; outside the edits it equals the original.

    Edit `i` replaces the original range `source_starts[i]` to `source_ends[i]` by the view's range `shown_starts[i]` to
    `shown_ends[i]`, which may be empty. Plain tuples of numbers, because a page may have an edit for each character.
    """

    text: str = field(repr=False)
    shown_starts: tuple[int, ...] = ()
    shown_ends: tuple[int, ...] = ()
    source_starts: tuple[int, ...] = ()
    source_ends: tuple[int, ...] = ()

    @property
    def has_edits(self) -> bool:
        """True if the view has an edit."""
        return bool(self.shown_starts)

    def source(self, shown: Range) -> Range:
        """Return the original range of a non-empty range of the view.

        Removed characters inside the range belong to it; those before and after it do not.
        """
        return Range(self._source_of(shown.start).start, self._source_of(shown.end - 1).end)

    def is_edited(self, shown: Range) -> bool:
        """Return True if an edit lies in this range of the view or touches it."""
        index = bisect_left(self.shown_ends, shown.start)
        return index < len(self.shown_starts) and self.shown_starts[index] <= shown.end

    def _source_of(self, at: int) -> Range:
        """Return the original range of one character of the view."""
        index = bisect_right(self.shown_ends, at)
        if index < len(self.shown_starts) and self.shown_starts[index] <= at:
            return Range(self.source_starts[index], self.source_ends[index])
        moved = self.source_ends[index - 1] - self.shown_ends[index - 1] if index else 0
        return Range(at + moved, at + moved + 1)


def edited(text: str, changes: Iterable[Change]) -> View:
    """Apply changes that are in order and do not overlap."""
    parts: list[str] = []
    shown_starts: list[int] = []
    shown_ends: list[int] = []
    source_starts: list[int] = []
    source_ends: list[int] = []
    end = length = 0
    for start, stop, new in changes:
        assert start >= end, "changes are in order and do not overlap"
        parts += (text[end:start], new)
        shown_starts.append(length + start - end)
        length, end = shown_starts[-1] + len(new), stop
        shown_ends.append(length)
        source_starts.append(start)
        source_ends.append(stop)
    parts.append(text[end:])
    return View("".join(parts), tuple(shown_starts), tuple(shown_ends), tuple(source_starts), tuple(source_ends))
