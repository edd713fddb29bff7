"""Compare finished runs: scores side by side, whether their differences are significant, and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from wardround.api.local_study import StudyResult
from wardround.api.one_site import TrainingResult
from wardround.api.results import Result
from wardround.errors import UsageError
from wardround.reports.comparison_page import comparison_sections
from wardround.reports.page import Chart, Section, write_report
from wardround.reports.run_record import RunRecord
from wardround.reports.tables import Table
from wardround.studies.run_reading import read_run

__all__ = ["Comparison", "compare"]

Run = StudyResult | TrainingResult | str | Path


@dataclass(frozen=True)
class Comparison(Result):
    """Several runs compared with the first of them.

    >>> import wardround
    >>> first = wardround.run("study.toml", out="first-run", progress=False)
    >>> comparison = wardround.compare({"one": first, "the same": "first-run"})
    >>> comparison.scores["one"] == comparison.scores["the same"]
    True
    """

    records: tuple[RunRecord, ...] = field(repr=False)

    @cached_property
    def _sections(self) -> list[Section]:
        return comparison_sections(self.records)

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the names of the runs."""
        return tuple(record.name for record in self.records)

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Return, by run and site, the F1 of the site's model on its test notes."""
        return {
            record.name: {site: found.interval.estimate for site, found in record.sites.items()}
            for record in self.records
        }

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the runs, their scores by site, their differences to the first, their costs and their settings."""
        return tuple(table for section in self._sections for table in section.tables)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Return the scores by site, and the scores on development notes by round and by bytes sent."""
        return tuple(chart for section in self._sections for chart in section.charts)

    def report(self, folder: str | Path) -> Path:
        """Write a page, its tables as Markdown and CSV and its charts to a folder; return the path of the page."""
        return write_report(Path(folder), "Runs compared", self._sections).page


def compare(runs: Mapping[str, Run] | Sequence[Run]) -> Comparison:
    """Compare finished runs with the first of them.

    Args:
        runs: results or run folders, by the names that tables show; in a sequence, runs are named by their folders.

    >>> import wardround
    >>> study = wardround.Study.from_file("study.toml")
    >>> runs = {f"seed {seed}": wardround.run(study.with_seed(seed), out=f"seed-{seed}", progress=False)
    ...         for seed in (0, 1)}
    >>> wardround.compare(runs).tables[0].columns[:2]
    ('run', 'algorithm')
    """
    if isinstance(runs, str | Path):
        raise UsageError("compare needs two runs or more: a list of results or folders, or a table of them by name")
    named = runs if isinstance(runs, Mapping) else dict(enumerate(runs))
    if len(named) < 2:
        raise UsageError("compare needs two runs or more; the report of a single run is in its folder")
    records = []
    for name, run in named.items():
        folder = run.folder if isinstance(run, Result) else Path(run)
        if not folder.is_dir():
            raise UsageError(f"there is no run folder {folder.name!r}")
        record = read_run(folder)
        records.append(replace(record, name=name) if isinstance(name, str) else record)
    comparison = Comparison(tuple(records))
    comparison.tables  # noqa: B018 – runs that cannot be compared are refused here
    return comparison
