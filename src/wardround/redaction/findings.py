"""Identifying text found by a model or a pattern, and the pieces of text that are hidden because of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wardround.text.document import Range

__all__ = ["Finding", "Hidden", "Source", "merge_findings"]

Source = Literal["model", "pattern"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A range of characters, its type, and what found it."""

    range: Range
    type: str
    source: Source


@dataclass(frozen=True, slots=True)
class Hidden:
    """A piece of text to hide; the pieces of a note do not overlap."""

    range: Range
    type: str  # of its longest finding
    sources: tuple[Source, ...]


def merge_findings(findings: Iterable[Finding]) -> list[Hidden]:
    """Return the findings in text order, overlapping ones merged into one piece that covers all their characters."""
    groups: list[list[Finding]] = []
    end = 0
    for finding in sorted(findings, key=lambda finding: finding.range):
        if not groups or finding.range.start >= end:
            groups.append([])
        groups[-1].append(finding)
        end = max(end, finding.range.end)
    hidden = []
    for group in groups:
        # Of equally long findings the model's decides: it has read the context.
        longest = max(group, key=lambda finding: (finding.range.end - finding.range.start, finding.source == "model"))
        whole = Range(group[0].range.start, max(finding.range.end for finding in group))
        hidden.append(Hidden(whole, longest.type, tuple(sorted({finding.source for finding in group}))))
    return hidden
