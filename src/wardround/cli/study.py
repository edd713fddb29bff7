"""`wardround study`: write, show and check study files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.exit_codes import ExitCode
from wardround.cli.options import StudyFile, refuse_existing
from wardround.cli.printing import Json, Result, printed
from wardround.text.plain_text import neutralise, size_text

if TYPE_CHECKING:
    from wardround.studies.study_plan import StudyPlan

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
    """Build what the coordinator would build, open the notes of each local site, and print what was found.

    Nothing is trained. It exits with 1 if a site cannot take part, or has no mention of a type that it declares.
    """
    from wardround.studies.data_check import check_data
    from wardround.studies.study_file import read_study
    from wardround.studies.study_plan import plan_of

    described = read_study(study)
    plan, found = plan_of(described), check_data(described)
    with printed(json) as result:
        result.line(
            f"{plan.study}: {len(plan.sites)} sites, {plan.rounds} rounds",
            study=plan.study,
            sites=plan.sites,
            rounds=plan.rounds,
        )
        result.line(f"{plan.algorithm}: {plan.description}", algorithm=plan.algorithm, description=plan.description)
        result.line(
            f"shared: {plan.arrays} arrays, {plan.numbers:,} numbers, {plan.bytes / 1e6:.1f} MB as float32",
            shared={"arrays": plan.arrays, "numbers": plan.numbers, "bytes": plan.bytes},
        )
        result.line(
            f"privacy: {plan.mechanism}, {plan.minimum_sites} sites a round at least",
            privacy={"mechanism": plan.mechanism, "minimum_sites": plan.minimum_sites},
        )
        if plan.noise is not None:
            noise, honest = plan.noise, described.privacy.honest_sites
            carried = f"carried by {honest} sites" if noise.shared else "all of it at each site"
            result.line(
                f"noise: {noise.multiplier:.2f} times the clip, {carried}, in {noise.releases:,} sums over samples "
                f"with rate {noise.sampling_rate:g}: {described.privacy.protection.budget}",
                noise=asdict(noise),
            )
        if plan.start is not None:
            result.table("start", plan.start)
        _show_cost(plan, found.passes, result)
        if found.sites:
            result.table("notes", found.table)
        result.declare("findings")
        for sentence in found.sentences():
            result.item(neutralise(sentence), findings=sentence)
        if not found.can_run:
            raise typer.Exit(ExitCode.FINDINGS)


def _show_cost(plan: StudyPlan, passes: float | None, result: Result) -> None:
    """Print what all rounds together mean: bytes, and passes over the training notes."""
    cost = f"{size_text(plan.bytes_up)} from all sites and as much to them, before protection" if plan.bytes_up else ""
    over = "" if passes is None else f"about {passes:,.1f} passes over the training notes of a site"
    if cost or over:
        result.line(f"cost: {'; '.join(filter(None, (over, cost)))}", passes=passes, bytes_up=plan.bytes_up)


@app.command()
def algorithms(json: Json = False) -> None:
    """List the algorithms."""
    from wardround.studies.catalogue import algorithm_descriptions

    described = algorithm_descriptions()
    with printed(json) as result:
        result.values(algorithms=described)
        for name, description in described.items():
            result.line(f"{name:8} {description}")
