"""`wardround demo`: train and score on the built-in hospitals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import torch
import typer

from wardround.cli.options import OUT_HELP, Device
from wardround.cli.printing import Json, printed, progress_console
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
    json: Json = False,
) -> None:
    """Train at each built-in hospital alone, together by FedNER, and pooled; print scores, models and a report."""

    def progress_of(study: Study) -> StudyProgress:
        rounds = study.algorithm.config.rounds
        return StudyProgress(study.study.name, list(study.sites), rounds, console=progress_console())

    torch.set_num_threads(1)  # small layers gain little from a second thread and lose much on a busy machine
    # Worker processes take longer to start than the quick demo.
    in_process = quick or pick_device(device).type == "cuda"
    workers = 0 if in_process else min(_MAXIMUM_WORKERS, os.cpu_count() or 0)
    done = run_demo(
        out or (_QUICK_OUT if quick else _OUT),
        demo_studies(seed, quick=quick),
        watch=progress_of,
        device=device,
        workers=workers,
        note=QUICK_NOTE if quick else "",
    )
    with printed(json) as result:
        result.table("sites", sites_table(done.sites))
        if quick:
            result.line(QUICK_NOTE, note=QUICK_NOTE)
        result.values(models=done.models)
        for name, folder in done.models.items():
            result.line(f"model   {name:9} {folder}")
        result.line(f"report            {done.report}", report=done.report)
