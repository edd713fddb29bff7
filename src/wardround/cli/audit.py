"""`wardround audit`: measure what updates and models reveal about notes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.exit_codes import ExitCode
from wardround.cli.options import FormatOptions, StudyFile, chosen_format
from wardround.cli.printing import Json, printed
from wardround.errors import UsageError

__all__ = ["app"]

app = typer.Typer(help="Measure what updates and models reveal about notes.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Measure what updates and models reveal about notes."""


@app.command()
def leakage(
    study: StudyFile,
    data: Annotated[
        Path | None,
        typer.Option(help="Notes to use instead of built-in ones; only figures are written.", exists=True),
    ] = None,
    format: Annotated[str, typer.Option("--format", help="The format of the notes.")] = "",
    option: FormatOptions = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to attack.")] = 2,
    highest_recall: Annotated[
        float, typer.Option(min=0, max=1, help="The share of the words that an attack may name before it is a finding.")
    ] = 0.5,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for leakage.json and leakage.html; in a run folder, the report shows them."),
    ] = None,
    json: Json = False,
) -> None:
    """Make real updates of a study, attack them as each reader could, and print what was recovered.

    Exit with 1 if an attack names more of the words than it may, or recovers a whole sentence.
    """
    from wardround.studies.audit_notes import training_notes
    from wardround.studies.leakage_audit import audit_leakage
    from wardround.studies.leakage_page import write_findings
    from wardround.studies.run_folder import RunFolder
    from wardround.studies.study_file import read_study

    if bool(data) != bool(format):
        raise UsageError("name the notes by --data and --format, or leave both out for built-in notes")
    notes = training_notes(data, chosen_format(format, option, data)) if data else ()
    findings = audit_leakage(read_study(study), notes, rounds=rounds)
    passes = findings.passes(highest_recall)
    with printed(json) as result:
        result.values(**findings.as_json(), recall=findings.recall, passes=passes)
        if findings.findings or findings.unseeing:
            result.show(findings.table)
        result.line(findings.sentence)
        if out is not None:
            page = write_findings(findings, RunFolder(out))
            result.line(f"page    {page}", page=page)
        limit = f"the limit is a recall of {highest_recall:g} and no whole sentence"
        result.line("Passed." if passes else f"Not passed: {limit}.")
        if not passes:
            raise typer.Exit(ExitCode.FINDINGS)


@app.command()
def noise(
    study: StudyFile,
    canaries: Annotated[int, typer.Option(min=10, help="Units that are guessed.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the units and of the noise of the audit.")] = 0,
    json: Json = False,
) -> None:
    """Try to refute the differential privacy of a study with units that are easy to guess.

    Exit with 1 if the ε that is measured is above the one that the study claims.
    """
    from wardround.privacy.audit.noise import audit_noise
    from wardround.studies.aggregation_setup import planned_noise
    from wardround.studies.study_file import read_study

    settings = read_study(study)
    found = audit_noise(
        planned_noise(settings), honest_sites=settings.privacy.honest_sites, canaries=canaries, seed=seed
    )
    with printed(json) as result:
        result.values(**asdict(found), refuted=found.refuted)
        result.line(f"claimed  ε = {found.claimed:g}")
        result.line(
            f"measured ε ≥ {found.measured:.2f}, with 95% confidence: {found.right} of {found.guesses} guesses right"
        )
        result.line("The claim is refuted." if found.refuted else "The claim is not refuted.")
        if found.refuted:
            raise typer.Exit(ExitCode.FINDINGS)
