"""`wardround demo`: the main job on the built-in hospitals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from wardround.cli.options import Device, OutFolder
from wardround.reports.progress import TrainingProgress
from wardround.reports.sites_page import sites_table
from wardround.studies.demo import DEMO_RECIPE, run_demo

__all__ = ["command"]


def command(
    out: OutFolder = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Same seed, same machine: same result.")] = 0,
    device: Device = "auto",
) -> None:
    """Train at each built-in hospital and on all of them pooled; print scores by site, models and a report."""
    torch.set_num_threads(1)  # layers this small gain little from a second thread, and lose much on a busy machine
    result = run_demo(
        out, watch=lambda name: TrainingProgress(f"{name:9}", DEMO_RECIPE.epochs), seed=seed, device=device
    )
    console = Console()
    console.print(sites_table(result.sites).to_rich())
    for name, folder in result.models.items():
        typer.echo(f"model   {name:9} {folder}")
    typer.echo(f"report            {result.report}")
