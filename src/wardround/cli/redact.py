"""`wardround redact`: mask, tag or replace what identifies people in notes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.api.redacted_notes import redacted_documents, redaction_settings, write_redacted
from wardround.api.trained_model import load
from wardround.cli.options import Device, FormatOptions, SkipFaulty, format_settings, standard_input
from wardround.cli.printing import Json, is_quiet, notice, printed
from wardround.corpora.formats import open_format
from wardround.errors import UsageError
from wardround.redaction.replacing import How

__all__ = ["command"]

_THRESHOLD = (
    "Also hide every word that is identifying with a probability above this, between 0 and 1, according to the model: "
    "the lower, the fewer are missed and the more is hidden without need. By default, only what the model finds most "
    "likely is hidden."
)
_PATIENT = (
    "Which notes are of one patient: note (each note has its own patient), folder (the notes of one folder), or the "
    "name of an attribute. All dates of a patient are shifted by the same number of weeks."
)
_SEED = (
    "File with the key of surrogates and hashed ids, 64 hexadecimal digits; it stays at the site and is created if it "
    "does not exist."
)


def command(
    notes: Annotated[Path, typer.Argument(help="Notes: a file or folder, or - for standard input.")],
    model: Annotated[Path | None, typer.Option(help="A folder that `wardround train` wrote.", exists=True)] = None,
    out: Annotated[
        Path | None, typer.Option(help="A new folder; without it, standard input goes to standard output.")
    ] = None,
    format: Annotated[str, typer.Option(help="text, brat, jsonl or any other format that can be written.")] = "text",
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
    how: Annotated[How, typer.Option(help="What replaces the hidden text.")] = How.MASK,
    threshold: Annotated[float | None, typer.Option(help=_THRESHOLD)] = None,
    patterns: Annotated[bool, typer.Option(help="Also hide dates, numbers and addresses by their form.")] = True,
    language: Annotated[str, typer.Option(help="Language of patterns and surrogates: en or es.")] = "en",
    patient: Annotated[str, typer.Option(help=_PATIENT)] = "note",
    ids: Annotated[
        str, typer.Option(help="keep the ids of notes, or hash them: file names may identify people too.")
    ] = "keep",
    seed_file: Annotated[Path | None, typer.Option(help=_SEED, dir_okay=False)] = None,
    review: Annotated[
        Path | None, typer.Option(help="Write an HTML page that shows the redacted notes.", dir_okay=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Redact notes into a folder, with an audit file of what was hidden where; no original is kept or shown."""
    if json and out is None:
        raise UsageError("--json prints the counts of a run into a folder: add --out FOLDER")
    if out is None and (str(notes) != "-" or review is not None or resume):
        raise UsageError("give a folder to write to: --out FOLDER; only standard input is redacted without a folder")
    settings = redaction_settings(how.value, language, threshold, patterns=patterns, patient=patient, ids=ids)
    format, options = format_settings(format, option, None if str(notes) == "-" else notes)
    form = open_format(format, options)
    documents = standard_input(form.line_codec) if str(notes) == "-" else notes
    if model is None:
        notice("wardround: no --model: patterns find no names, streets or places")
    if out is None:
        assert not isinstance(documents, Path), "without a folder, only standard input is redacted"
        loaded = None if model is None else load(model, device=device)
        for note in redacted_documents(documents, settings, model=loaded, seed_file=seed_file):
            # A line each if the format has one, otherwise the text alone.
            line = note.text if form.line_codec is None else form.line_codec.encode(note) + "\n"
            typer.echo(line, nl=False)
        return
    done = write_redacted(
        documents,
        out,
        settings,
        format=format,
        format_options=options,
        model=model,
        seed_file=seed_file,
        review=review,
        resume=resume,
        skip_faulty=skip_faulty,
        device=device,
        progress=not is_quiet(),
    )
    with printed(json) as result:
        line = f"{done.notes:,} notes redacted into {out.name}; what was hidden where is in {done.audit.name}"
        result.line(line, out=out, audit=done.audit, notes=done.notes, hidden=done.hidden)
