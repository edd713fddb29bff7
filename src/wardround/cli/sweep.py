"""`wardround sweep`: run many studies from one file and show them in one table."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement

from wardround.cli.exit_codes import ExitCode
from wardround.cli.options import Device
from wardround.cli.printing import Json, Result, printed, progress_console
from wardround.reports.tables import Table
from wardround.sweeps.index import INDEX, Index
from wardround.sweeps.plan import check_plan, plan_runs
from wardround.sweeps.sweep_file import Sweep, read_sweep
from wardround.sweeps.sweep_run import SweepProgress, SweepRun
from wardround.sweeps.sweep_table import SweepTable

__all__ = ["command"]

_UNLIMITED = 10_000  # columns of a terminal


def command(
    sweep: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file: see docs/sweeps.md.", exists=True)],
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs; those that are missing are run.")],
    processes: Annotated[int, typer.Option(help="Runs at once, each on one core.", min=1)] = 1,
    device: Device = "auto",
    minutes: Annotated[float, typer.Option(help="Stop after this many minutes; 0 means never.", min=0.0)] = 0.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and list the runs.")] = False,
    json: Json = False,
) -> None:
    """Run or resume a sweep; print its table and write it with a plot."""
    described = read_sweep(sweep)
    runs = plan_runs(described)
    check_plan(runs, described.figures)
    index = Index(out, runs, described.figures)
    with printed(json) as result:
        if dry_run:
            _list(index, result)
            return
        # So that running studies are stopped, too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
        with SweepProgress(index, console=progress_console()) as progress:
            work = SweepRun(index, progress, device, described.keep_models)
            work.work(processes=processes, minutes=minutes)
        _show(described, index, result)
        left = work.unfinished()
        result.values(runs=len(runs), left=len(left), failed=work.failed)
        if left:
            result.line(f"left    {len(left)} of {len(runs)} runs; the same command resumes them")
        if work.failed:
            raise typer.Exit(ExitCode.FINDINGS)


def _list(index: Index, result: Result) -> None:
    """Print which runs are finished."""
    result.declare("planned")
    for run in index.runs:
        has = index.has(run)
        text = f"{'finished' if has else 'missing ':8}  {run.key}  {run.name}"
        result.item(text, planned={"run": run.key, "name": run.name, "finished": has})
    done = sum(index.has(run) for run in index.runs)
    result.line(f"{len(index.runs)} runs, {done} of them finished", runs=len(index.runs), finished=done)


def _show(sweep: Sweep, index: Index, result: Result) -> None:
    """Print one table if it fits the terminal, otherwise one for each figure; then the paths of the files."""
    found, console = SweepTable(sweep, index), Console()

    def width(table: Table) -> int:
        return Measurement.get(console, console.options.update(max_width=_UNLIMITED), table.to_rich()).maximum

    whole = found.to_table()
    fits = width(whole) <= console.width
    written = [index.folder / INDEX, *found.write(index.folder)]
    result.values(table=found.to_long_table().to_records(), files=written)
    if result.as_json:
        return
    for table in [whole] if fits else [found.to_table(figure.title) for figure in sweep.figures]:
        wide = console if width(table) <= console.width else Console(width=width(table))
        wide.print(table.to_rich())
    for path in written:
        typer.echo(f"{path.stem:7} {path}")
