"""`wardround demo`: train and score on the built-in hospitals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from wardround.cli.options import OUT_HELP, Device
from wardround.reports.progress import StudyProgress
from wardround.reports.sites_page import sites_table
from wardround.studies.demo import QUICK_NOTE, demo_studies, run_demo
from wardround.studies.single_site import pick_device
from wardround.studies.study_file import Study

__all__ = ["command"]

_OUT, _QUICK_OUT = Path("runs/demo"), Path("runs/demo-quick")
_MAXIMUM_WORKERS = 4  # there are four hospitals


def command(
    out: Annotated[
        Path | None, typer.Option("--out", help=f"{OUT_HELP} By default {_OUT}, or {_QUICK_OUT}.", file_okay=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result on the same machine.")] = 0,
    device: Device = "auto",
    quick: Annotated[
        bool, typer.Option("--quick", help="Run in seconds, to test the installation; its scores are not meaningful.")
    ] = False,
) -> None:
    """Train at each built-in hospital alone, together by FedNER, and pooled; print scores, models and a report."""

    def progress_of(study: Study) -> StudyProgress:
        return StudyProgress(study.study.name, list(study.sites), study.algorithm.config.rounds)

    torch.set_num_threads(1)  # small layers gain little from a second thread and lose much on a busy machine
    in_process = (
        quick or pick_device(device).type == "cuda"
    )  # worker processes take longer to start than the quick demo
    workers = 0 if in_process else min(_MAXIMUM_WORKERS, os.cpu_count() or 0)
    result = run_demo(
        out or (_QUICK_OUT if quick else _OUT),
        demo_studies(seed, quick=quick),
        watch=progress_of,
        device=device,
        workers=workers,
        note=QUICK_NOTE if quick else "",
    )
    Console().print(sites_table(result.sites).to_rich())
    if quick:
        typer.echo(QUICK_NOTE)
    for name, folder in result.models.items():
        typer.echo(f"model   {name:9} {folder}")
    typer.echo(f"report            {result.report}")
