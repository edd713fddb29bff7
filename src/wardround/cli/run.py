"""`wardround run`: run a study with every site on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from wardround.cli.options import Device, OutFolder, Track, listed
from wardround.reports.progress import StudyProgress
from wardround.reports.score_tables import study_tables
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import write_own_report
from wardround.studies.run_tracking import tracked
from wardround.studies.single_site import pick_device
from wardround.studies.study_file import read_study
from wardround.text.plain_text import size_text

__all__ = ["command"]


def command(
    study: Annotated[Path, typer.Argument(help="A study file; `wardround study new` writes one.", exists=True)],
    out: OutFolder,
    device: Device = "auto",
    workers: Annotated[
        int, typer.Option(help="Worker processes that share the sites; 0 uses this process only.", min=0)
    ] = 0,
    threads: Annotated[int, typer.Option(help="Threads per process.", min=1)] = 1,
    ledgers: Annotated[
        bool, typer.Option("--ledgers", help="Have each site write its ledger, as in a networked study.")
    ] = False,
    track: Track = "",
) -> None:
    """Run or resume a study: score every site, write its model, the events and a report."""
    torch.set_num_threads(threads)
    described = read_study(study)
    folder = RunFolder(out)
    rounds = described.algorithm.config.rounds
    progress = StudyProgress(described.study.name, list(described.sites), rounds)
    with progress, tracked(described, folder, listed(track) or (), say=progress.on_event):
        outcome = run_on_one_machine(
            described, folder, device=pick_device(device), watcher=progress, workers=workers, ledgers=ledgers
        )
    write_own_report(folder)
    for table in study_tables(outcome.sites):
        Console().print(table.to_rich())
    traffic = f"up {size_text(outcome.traffic.up)}, down {size_text(outcome.traffic.down)}"
    typer.echo(f"rounds  {outcome.rounds}, the best {outcome.best_round}; {traffic}")
    for name in outcome.sites:
        typer.echo(f"model   {name:12} {folder.site(name) / 'model'}")
    typer.echo(f"report  {folder.report}")
