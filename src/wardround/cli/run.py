"""`wardround run`: run a study with every site on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import torch
import typer

from wardround.cli.options import Device, OutFolder, StudyFile, Track, listed
from wardround.cli.printing import Json, printed, progress_console
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
    study: StudyFile,
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
    json: Json = False,
) -> None:
    """Run or resume a study: score every site, write its model, the events and a report."""
    torch.set_num_threads(threads)
    described = read_study(study)
    folder = RunFolder(out)
    rounds = described.algorithm.config.rounds
    progress = StudyProgress(described.study.name, list(described.sites), rounds, console=progress_console())
    with progress, tracked(described, folder, listed(track) or (), say=progress.on_event):
        outcome = run_on_one_machine(
            described, folder, device=pick_device(device), watcher=progress, workers=workers, ledgers=ledgers
        )
    write_own_report(folder)
    models = {name: folder.site(name) / "model" for name in outcome.sites}
    with printed(json) as result:
        scores = {name: site.as_json() | {"model": models[name]} for name, site in outcome.sites.items()}
        result.values(study=described.study.name, sites=scores)
        for table in study_tables(outcome.sites):
            result.show(table)
        result.line(
            f"rounds  {outcome.rounds}, the best {outcome.best_round}; "
            f"up {size_text(outcome.traffic.up)}, down {size_text(outcome.traffic.down)}",
            rounds=outcome.rounds,
            best_round=outcome.best_round,
            traffic=asdict(outcome.traffic),
        )
        for name, model in models.items():
            result.line(f"model   {name:12} {model}")
        result.line(f"report  {folder.report}", report=folder.report)
