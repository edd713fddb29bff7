"""Write the report of one finished or interrupted run, or the comparison of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wardround.errors import ModelError, UsageError
from wardround.models.cards import model_card
from wardround.reports.comparison_page import comparison_sections
from wardround.reports.page import ReportFiles, write_report
from wardround.reports.run_page import run_sections
from wardround.reports.run_record import RunRecord
from wardround.studies.run_reading import read_run, run_folder_at, with_examples
from wardround.studies.transfer_run import saved_transfer_table

__all__ = ["report_runs"]


def report_runs(runs: Sequence[Path], out: Path | None = None, *, examples: int = 4) -> ReportFiles:
    """Write a report about one run, or a comparison of several with the first.

    `out` is the folder of the report; for one run it can be omitted and is `report` in the run's folder. `examples` is
    the number of example predictions of a single run; they are only taken from synthetic or public notes.
    """
    for path in runs:
        if not path.is_dir():
            raise UsageError(f"{path.name} is no folder; name the --out of a `wardround run` or `wardround train`")
    if len(runs) == 1:
        record = with_examples(_read_with_transfer(runs[0]), runs[0], examples)
        return write_report(out or runs[0] / "report", record.title, run_sections(record))
    if out is None:
        raise UsageError("a comparison belongs to no single run: name its folder with --out")
    return write_report(out, "Runs compared", comparison_sections([_read_with_transfer(path) for path in runs]))


def _read_with_transfer(path: Path) -> RunRecord:
    """Read a run; if it was a transfer, add the table of the layers that it started from."""
    record = read_run(path)
    try:
        note = model_card(run_folder_at(path) / "model").get("notes", {}).get("transfer")
    except ModelError:
        return record
    table = None if note is None else saved_transfer_table(note)
    return record if table is None else replace(record, more=(table,))
