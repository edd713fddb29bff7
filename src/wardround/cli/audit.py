"""`wardround audit`: measure what updates and models reveal about notes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.exit_codes import ExitCode
from wardround.cli.options import (
    FormatOptions,
    ModelFolder,
    OutFolder,
    StudyFile,
    chosen_format,
    listed,
    refuse_existing,
)
from wardround.cli.printing import Json, printed
from wardround.errors import UsageError
from wardround.text.document import Document

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


@app.command()
def model(
    model: ModelFolder,
    members: Annotated[Path, typer.Option(help="Notes that the model was trained on.", exists=True)],
    others: Annotated[Path, typer.Option(help="Notes like these that it never saw.", exists=True)],
    format: Annotated[str, typer.Option("--format", help="The format of the notes.")] = "auto",
    option: FormatOptions = None,
    reference: Annotated[
        Path | None, typer.Option(help="A model that saw neither; its loss is compared.", exists=True)
    ] = None,
    json: Json = False,
) -> None:
    """Guess from a model which notes it was trained on, and print how often that is right.

    Exit with 1 if an attack is above chance. Of a split corpus, --members uses the training part, and --others the test
    part.
    """
    from wardround.api.audit import model as audit_model
    from wardround.corpora.splits import find_splits

    def notes(path: Path, part: str) -> list[Document]:
        place = find_splits(path).get(part, path)
        return list(chosen_format(format, option, place).read(place))

    found = audit_model(model, notes(members, "train"), notes(others, "test"), reference=reference)
    with printed(json) as result:
        result.values(findings=[asdict(finding) for finding in found.findings], remembers=found.remembers)
        result.show(found.tables[0])
        result.line(found.sentence)
        if found.remembers:
            raise typer.Exit(ExitCode.FINDINGS)


@app.command()
def canaries(
    out: OutFolder,
    types: Annotated[str, typer.Option("--types", help="Entity types of the canaries, comma-separated.")],
    count: Annotated[int, typer.Option(min=1, help="Notes to plant, and notes to keep.")] = 40,
    to: Annotated[str, typer.Option("--to", help="The format of the notes.")] = "jsonl",
    seed: Annotated[int, typer.Option(help="The same seed invents the same notes.")] = 0,
    json: Json = False,
) -> None:
    """Write invented notes to plant among training notes, and as many to keep, for `audit model` after the training."""
    from wardround.api.audit import canaries as make
    from wardround.corpora.formats import writable_format

    planted, kept = make(listed(types) or (), count=count, seed=seed)
    writer = writable_format(chosen_format(to, None))
    refuse_existing(out)
    with printed(json) as result:
        for name, notes in (("planted", planted), ("kept", kept)):
            path = out / f"{name}{writer.ending}"
            writer.write(notes, path)
            result.values(**{name: path})
            result.line(f"{name:8} {len(notes)} notes  {path}")
