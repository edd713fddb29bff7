"""`wardround sweep`: run many studies from one file and show them in one table."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement

from wardround.cli.options import Device
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
) -> None:
    """Run or resume a sweep; print its table and write it with a plot."""
    described = read_sweep(sweep)
    runs = plan_runs(described)
    check_plan(runs, described.figures)
    index = Index(out, runs, described.figures)
    if dry_run:
        for run in index.runs:
            typer.echo(f"{'finished' if index.has(run) else 'missing ':8}  {run.key}  {run.name}")
        done = sum(index.has(run) for run in index.runs)
        typer.echo(f"{len(index.runs)} runs, {done} of them finished")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that running studies are stopped, too
    with SweepProgress(index) as progress:
        work = SweepRun(index, progress, device, described.keep_models)
        work.work(processes=processes, minutes=minutes)
    _show(described, index)
    if work.unfinished():
        typer.echo(f"left    {len(work.unfinished())} of {len(runs)} runs; the same command resumes them")
    if work.failed:
        raise typer.Exit(1)


def _show(sweep: Sweep, index: Index) -> None:
    """Print one table if it fits the terminal, otherwise one for each figure; then the paths of the files."""
    found, console = SweepTable(sweep, index), Console()

    def width(table: Table) -> int:
        return Measurement.get(console, console.options.update(max_width=_UNLIMITED), table.to_rich()).maximum

    whole = found.to_table()
    fits = width(whole) <= console.width
    for table in [whole] if fits else [found.to_table(figure.title) for figure in sweep.figures]:
        wide = console if width(table) <= console.width else Console(width=width(table))
        wide.print(table.to_rich())
    for path in (index.folder / INDEX, *found.write(index.folder)):
        typer.echo(f"{path.stem:7} {path}")
