"""`wardround study`: write, show and check study files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wardround.cli.options import refuse_existing
from wardround.studies.aggregation_setup import mechanism_of, payload_of
from wardround.studies.assemble import check_start, common_task, coordinator_of, start_table
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.study_file import read_study, to_toml
from wardround.studies.study_notes import public_set
from wardround.studies.study_template import TEMPLATE

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)
StudyFile = Annotated[Path, typer.Argument(help="A study file.", exists=True)]


@app.command()
def new(path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("study.toml")) -> None:
    """Write a commented study on the built-in hospitals, ready to run and to edit."""
    refuse_existing(path)
    path.write_text(TEMPLATE, encoding="utf-8")
    typer.echo(f"study   {path}\nrun it: wardround run {path} --out runs/{path.stem}")


@app.command()
def show(study: StudyFile) -> None:
    """Print the study with every default written out; a study with contradictions is refused."""
    typer.echo(to_toml(read_study(study)), nl=False)


@app.command()
def check(study: StudyFile) -> None:
    """Build what the coordinator would build and print what the study shares; nothing is trained."""
    described = read_study(study)
    task = common_task(described)
    public = public_set(described, task)
    coordinator = coordinator_of(described, task, public)
    payload = payload_of(described, task, public)
    if described.privacy.protection.protects:
        mechanism_of(described, payload)  # raises an error if the updates cannot be protected
    numbers = sum(tensor.numel() for tensor in coordinator.shared.values())
    kind = described.algorithm.kind
    typer.echo(f"{described.study.name}: {len(described.sites)} sites, {described.algorithm.config.rounds} rounds")
    typer.echo(f"{described.algorithm.name}: {kind.description}")
    typer.echo(f"shared: {len(coordinator.shared)} arrays, {numbers:,} numbers, {numbers * 4 / 1e6:.1f} MB as float32")
    typer.echo(f"privacy: {described.privacy.mechanism}, {described.privacy.minimum_sites} sites a round at least")
    check_start(described)
    if (table := start_table(described)) is not None:
        Console().print(table.to_rich())


@app.command()
def algorithms() -> None:
    """List the algorithms."""
    for name, kind in ALGORITHMS.items():
        typer.echo(f"{name:8} {kind.description}")
