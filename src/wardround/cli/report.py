"""`wardround report`: one run explained, or several compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.model import began_table
from wardround.errors import ModelError, UsageError
from wardround.models.saved import model_card
from wardround.reports.comparison_page import comparison_sections
from wardround.reports.page import write_report
from wardround.reports.run_page import run_sections
from wardround.reports.run_record import RunRecord
from wardround.studies.run_reading import read_run, run_folder_at
from wardround.studies.shown_examples import with_examples

__all__ = ["command"]


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; of several the first is what others are held to.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The report's folder; of one run `report` in its own.", file_okay=False),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, help="Example predictions on synthetic or public notes; 0 is none.")
    ] = 4,
) -> None:
    """Write a page that needs no network, its tables as Markdown and CSV, its charts as PNG and SVG."""
    for path in runs:
        if not path.is_dir():
            raise UsageError(f"{path.name} is no folder; name the folders of runs")
    if len(runs) == 1:
        record = with_examples(_read(runs[0]), runs[0], examples)
        title, sections = record.title, run_sections(record)
    else:
        if out is None:
            raise UsageError("a comparison belongs to no run: say by --out where it is to lie")
        title, sections = "Runs compared", comparison_sections([_read(path) for path in runs])
    written = write_report(out or runs[0] / "report", title, sections)
    typer.echo(f"page    {written.page}\ntables  {written.markdown}, and {len(written.tables)} as CSV")
    typer.echo(f"charts  {len(written.charts)} files in {written.page.parent / 'charts'}")


def _read(path: Path) -> RunRecord:
    """The run, and of a transfer what it began from."""
    record = read_run(path)
    try:
        note = model_card(run_folder_at(path) / "model").get("notes", {}).get("transfer")
    except ModelError:
        return record
    began = None if note is None else began_table(note)
    return record if began is None else replace(record, more=(began,))
