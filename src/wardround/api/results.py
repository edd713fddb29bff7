"""What trainings, evaluations and studies return: scores as plain numbers, tables, charts, data frames and reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.errors import UsageError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.significance import Interval
from wardround.reports.page import Chart, figures_html
from wardround.reports.round_sections import rounds_section
from wardround.reports.run_page import scores_section
from wardround.reports.tables import Table
from wardround.studies.run_reading import read_run

__all__ = ["Result", "Scores", "mode_scores", "run_charts"]

Scores = dict[str, dict[str, float]]  # by matching mode: precision, recall, f1, and the ends of the interval of f1


class Result:
    """The base class of results: everything that can be shown as tables and charts."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables of this result, the main one first."""
        raise NotImplementedError

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Return the charts of this result; each has `svg`, and `plot.to_png()` for other programs."""
        return ()

    def to_frame(self, table: int = 0) -> Any:
        """Return a table as a pandas data frame with unrounded numbers; pandas must be installed.

        Args:
            table: which of `tables`; by default the main one.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise UsageError("to_frame needs pandas: pip install 'wardround[notebook]'") from None
        if not 0 <= table < len(self.tables):
            raise UsageError(f"there is no table {table}; there are {len(self.tables)}, the first is 0")
        return pandas.DataFrame(self.tables[table].to_records())

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables) + figures_html(self.charts)


def run_charts(folder: Path) -> tuple[Chart, ...]:
    """Return the charts of the scores and of the rounds or epochs of a finished run."""
    record = read_run(folder)
    drawn = (*scores_section(record).charts, *rounds_section(record.history, record.mode).charts)
    return tuple(chart for chart in drawn if len(record.sites) > 1 or chart.name != "f1-by-site")


def mode_scores(counts: Mapping[str, TypedCounts], intervals: Mapping[str, Interval]) -> Scores:
    """Return the micro-averaged scores of each matching mode, with the interval of its F1 where it is known."""
    found: Scores = {}
    for mode, typed in counts.items():
        micro = typed.micro
        found[mode] = {"precision": micro.precision, "recall": micro.recall, "f1": micro.f1}
        if mode in intervals:
            found[mode] |= {"low": intervals[mode].low, "high": intervals[mode].high}
    return found
