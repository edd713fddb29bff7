"""`wardround study`: write, show and check study files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import StudyFile, refuse_existing
from wardround.cli.printing import Json, printed

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)

# Each command imports what it needs: listing the algorithms and writing a template need no torch.


@app.command()
def new(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("study.toml"), json: Json = False
) -> None:
    """Write a commented study on the built-in hospitals, ready to run and to edit."""
    from wardround.studies.study_template import TEMPLATE

    refuse_existing(path)
    path.write_text(TEMPLATE, encoding="utf-8")
    with printed(json) as result:
        result.line(f"study   {path}\nrun it: wardround run {path} --out runs/{path.stem}", study=path)


@app.command()
def show(study: StudyFile, json: Json = False) -> None:
    """Print the study with every default written out; a study with contradictions is refused."""
    from wardround.parsing import parse_toml
    from wardround.studies.study_file import read_study, to_toml

    text = to_toml(read_study(study))
    with printed(json) as result:
        result.line(text.removesuffix("\n"), **parse_toml(text))


@app.command()
def check(study: StudyFile, json: Json = False) -> None:
    """Build what the coordinator would build and print what the study shares; nothing is trained."""
    from wardround.studies.aggregation_setup import mechanism_of, payload_of
    from wardround.studies.assemble import check_start, common_task, coordinator_of, start_table
    from wardround.studies.study_file import read_study
    from wardround.studies.study_notes import public_set

    described = read_study(study)
    task = common_task(described)
    public = public_set(described, task)
    coordinator = coordinator_of(described, task, public)
    payload = payload_of(described, task, public)
    if described.privacy.protection.protects:
        mechanism_of(described, payload)  # raises an error if the updates cannot be protected
    numbers = sum(tensor.numel() for tensor in coordinator.shared.values())
    arrays, rounds = len(coordinator.shared), described.algorithm.config.rounds
    name, description = described.algorithm.name, described.algorithm.kind.description
    mechanism, minimum = described.privacy.mechanism, described.privacy.minimum_sites
    with printed(json) as result:
        result.line(
            f"{described.study.name}: {len(described.sites)} sites, {rounds} rounds",
            study=described.study.name,
            sites=list(described.sites),
            rounds=rounds,
        )
        result.line(f"{name}: {description}", algorithm=name, description=description)
        result.line(
            f"shared: {arrays} arrays, {numbers:,} numbers, {numbers * 4 / 1e6:.1f} MB as float32",
            shared={"arrays": arrays, "numbers": numbers, "bytes": numbers * 4},
        )
        result.line(
            f"privacy: {mechanism}, {minimum} sites a round at least",
            privacy={"mechanism": mechanism, "minimum_sites": minimum},
        )
        check_start(described)
        if (table := start_table(described)) is not None:
            result.table("start", table)


@app.command()
def algorithms(json: Json = False) -> None:
    """List the algorithms."""
    from wardround.studies.catalogue import algorithm_descriptions

    described = algorithm_descriptions()
    with printed(json) as result:
        result.values(algorithms=described)
        for name, description in described.items():
            result.line(f"{name:8} {description}")
