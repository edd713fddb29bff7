"""What was found to identify somebody, by model or pattern, and what is hidden because of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wardround.text.document import Range

__all__ = ["Finding", "Hidden", "Source", "united"]

Source = Literal["model", "pattern"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A range of characters, its type, and who found it."""

    range: Range
    type: str
    source: Source


@dataclass(frozen=True, slots=True)
class Hidden:
    """Characters that go, as one piece; no two pieces of a note overlap."""

    range: Range
    type: str  # of the longest finding in it
    sources: tuple[Source, ...]


def united(findings: Iterable[Finding]) -> list[Hidden]:
    """The findings in reading order, those that overlap as one: every character that any of them covers is covered."""
    groups: list[list[Finding]] = []
    end = 0
    for finding in sorted(findings, key=lambda finding: finding.range):
        if not groups or finding.range.start >= end:
            groups.append([])
        groups[-1].append(finding)
        end = max(end, finding.range.end)
    return [_one(group) for group in groups]


def _one(group: list[Finding]) -> Hidden:
    # Of equally long ones the model's: it read the words around it.
    longest = max(group, key=lambda finding: (finding.range.end - finding.range.start, finding.source == "model"))
    whole = Range(group[0].range.start, max(finding.range.end for finding in group))
    return Hidden(whole, longest.type, tuple(sorted({finding.source for finding in group})))
