"""Cells and tables of a paper's page, written between its markers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from wardround.sweeps.figures import bootstrap_interval as resampled

__all__ = ["NOTHING", "Bar", "fill", "resampled", "spread", "table"]

NOTHING = "–"  # not measured


@dataclass(frozen=True)
class Bar:
    """Something that was to be reached."""

    wanted: str
    measured: str
    met: bool | None  # None where it was not measured, or not enough of it

    def __str__(self) -> str:
        return f"{self.verdict}: {self.wanted}; {self.measured}"

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "met", False: "missed", None: "not measured" if self.measured == NOTHING else "open"}[self.met]


def spread(values: Sequence[float], *, digits: int = 1) -> str:
    """The mean, and the lowest and highest seed."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{mean(values):.{digits}f} ({min(values):.{digits}f} – {max(values):.{digits}f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(page: str, name: str, content: str) -> str:
    """The page with the content between the markers of that name; without content, the markers alone."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in page or end not in page:
        sys.exit(f"the page has no markers {begin} and {end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    return f"{before}{begin}\n{content}\n{end}{after}" if content else f"{before}{begin}\n{end}{after}"
