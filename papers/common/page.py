"""Cells and tables of a paper's page, written between its markers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean

NOTHING = "–"  # not measured
_RESAMPLED = 2000  # draws of seeds for an interval


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


def resampled(statistic: Callable[[Sequence[int]], float], seeds: int) -> tuple[float, float]:
    """A 95% interval of a figure over seeds, by drawing seeds with replacement."""
    random = Random(0)  # noqa: S311 – a draw, not a secret
    found = sorted(statistic(random.choices(range(seeds), k=seeds)) for _ in range(_RESAMPLED))
    return found[int(0.025 * _RESAMPLED)], found[int(0.975 * _RESAMPLED) - 1]


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
