"""What trainings, evaluations and studies return: scores as plain numbers, tables, data frames and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wardround.errors import UsageError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.significance import Interval
from wardround.reports.tables import Table

__all__ = ["Result", "Scores", "mode_scores"]

Scores = dict[str, dict[str, float]]  # by matching mode: precision, recall, f1, and the ends of the interval of f1


class Result:
    """The base class of results: everything that can be shown as tables."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables of this result, the main one first."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the main table as a pandas data frame with unrounded numbers; pandas must be installed."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise UsageError("to_frame needs pandas: pip install 'wardround[notebook]'") from None
        return pandas.DataFrame(self.tables[0].to_records())

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables)


def mode_scores(counts: Mapping[str, TypedCounts], intervals: Mapping[str, Interval]) -> Scores:
    """Return the micro-averaged scores of each matching mode, with the interval of its F1 where it is known."""
    found: Scores = {}
    for mode, typed in counts.items():
        micro = typed.micro
        found[mode] = {"precision": micro.precision, "recall": micro.recall, "f1": micro.f1}
        if mode in intervals:
            found[mode] |= {"low": intervals[mode].low, "high": intervals[mode].high}
    return found
