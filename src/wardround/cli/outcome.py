"""What `train` and `transfer` print when a model is finished: scores, and the paths of model and report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wardround.cli.printing import Result, progress_console
from wardround.reports.score_tables import leakage_tables, main_note, score_tables
from wardround.reports.tables import Table
from wardround.reports.training_page import ERROR_COUNTS, ErrorCounts, write_training_page
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import Outcome

__all__ = ["show_outcome", "show_warnings"]


def show_warnings(warnings: Iterable[str]) -> None:
    """Print warnings about the notes before a training."""
    for warning in warnings:
        progress_console().print(f"[yellow]warning:[/yellow] {warning}", highlight=False)


def show_outcome(
    outcome: Outcome,
    folder: RunFolder,
    title: str,
    *,
    result: Result,
    settings: Mapping[str, Any],
    more: Sequence[Table] = (),
) -> None:
    """Print the scores, write the report with them and `more` tables, and print the paths of model and report."""
    mode, interval = next(iter(outcome.f1.items()))
    note = main_note(mode, interval, outcome.score.documents)
    tables = score_tables(outcome.score.counts, title=f"{title}, {outcome.scored_on}", note=note)
    if outcome.score.leakage is not None:
        tables += leakage_tables(outcome.score.leakage)
    result.show(*tables)
    entities = outcome.score.entities
    errors = None if entities is None else ErrorCounts.of(entities)
    if errors is not None:  # so that the report can be written again
        folder.write_json(ERROR_COUNTS, errors.as_json())
    write_training_page(
        folder.report,
        title,
        scores=[*tables, *more],
        errors=errors,
        mode=mode,
        epochs=outcome.records,
        settings=dict(settings),
    )
    result.values(**outcome.as_json())
    result.line(f"model   {folder.model}\nreport  {folder.report}", model=folder.model, report=folder.report)
