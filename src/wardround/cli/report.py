"""`wardround report`: write a report about one run, or compare several."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.printing import Json, printed
from wardround.studies.run_reports import report_runs

__all__ = ["command"]


def command(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders; with several, the others are compared to the first.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The report's folder; for one run, `report` in its own.", file_okay=False),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, help="Number of example predictions on synthetic or public notes.")
    ] = 4,
    json: Json = False,
) -> None:
    """Write a page that needs no network, its tables as Markdown and CSV, its charts as PNG and SVG."""
    written = report_runs(runs, out, examples=examples)
    with printed(json) as result:
        result.values(**asdict(written))
        result.line(f"page    {written.page}\ntables  {written.markdown}, and {len(written.tables)} as CSV")
        result.line(f"charts  {len(written.charts)} files in {written.page.parent / 'charts'}")
