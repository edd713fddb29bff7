"""Scores with their intervals as cells: one text to read, in a CSV the score and both ends."""

from __future__ import annotations

from wardround.reports.tables import Figures

__all__ = ["interval_cell", "score_cell"]


def score_cell(score: float | None, ends: tuple[float, float] | None) -> Figures:
    """`0.500 (0.250–0.750)`, without brackets where the ends are not known; a dash where there is no score."""
    low, high = ends or (None, None)
    brackets = "" if ends is None else f" ({_ends(ends)})"
    text = "–" if score is None else f"{score:.3f}{brackets}"
    return Figures(text, {"": score, "low": low, "high": high})


def interval_cell(ends: tuple[float, float] | None) -> Figures:
    """`0.250–0.750`, nothing where it is not known."""
    low, high = ends or (None, None)
    return Figures("" if ends is None else _ends(ends), {"low": low, "high": high})


def _ends(ends: tuple[float, float]) -> str:
    low, high = ends
    return f"{low:.3f}–{high:.3f}"
