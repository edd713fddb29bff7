"""`wardround redact`: mask, tag or replace what identifies people in notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.progress import track

from wardround.cli.options import Device, FormatOptions, chosen_format, refuse_existing, standard_input
from wardround.cli.printing import Json, notice, printed, progress_console
from wardround.corpora.corpus_format import CorpusFormat, check_choice
from wardround.errors import UsageError
from wardround.models.saved import load_model
from wardround.redaction.outputs import check_output, output_for
from wardround.redaction.patterns import Language
from wardround.redaction.redaction_run import AUDIT, RedactedNote, redact_into
from wardround.redaction.redaction_settings import Ids, RedactionSettings
from wardround.redaction.replacing import How
from wardround.studies.single_site import pick_device
from wardround.tasks.task_table import task_of

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
    check_choice("language", language, Language)
    check_choice("way with ids", ids, Ids)
    settings = RedactionSettings(how, cast(Language, language), threshold, patterns, patient, cast(Ids, ids))
    key = settings.key(seed_file, resume=resume)
    form = chosen_format(format, option)
    check_output(format, form)
    for path in (out, review):
        if path is not None and not resume:
            refuse_existing(path)
    redaction = settings.redaction(None if model is None else task_of(load_model(model).to(pick_device(device))), key)
    if model is None:
        notice("wardround: no --model: patterns find no names, streets or places")
    documents = standard_input(form.line_codec) if str(notes) == "-" else form.read(notes)
    if out is not None:
        options = " ".join((format, *(option or ())))
        done = redact_into(
            out,
            documents,
            redaction,
            output=lambda keep: output_for(format, form, out, keep=keep),
            settings=settings.for_journal(format=options, model=model, key=key, review=review is not None),
            resume=resume,
            review=review,
        )
        _show_counts(done, out, as_json=json)
        return
    if str(notes) != "-" or review is not None or resume:
        raise UsageError("give a folder to write to: --out FOLDER; only standard input is redacted without a folder")
    _print_notes(redaction.notes(documents), form)


def _show_counts(done: Iterable[RedactedNote], out: Path, *, as_json: bool) -> None:
    """Redact the notes that the iterator yields, and print how many they were and what was hidden, by type."""
    count, hidden = 0, Counter[str]()
    for note in track(done, description="notes", console=progress_console()):
        count += 1
        hidden.update(mark.type for mark in note.redacted.marks)
    with printed(as_json) as result:
        line = f"{count:,} notes redacted into {out.name}; what was hidden where is in {AUDIT}"
        result.line(line, out=out, audit=out / AUDIT, notes=count, hidden=hidden)


def _print_notes(redacted: Iterable[RedactedNote], form: CorpusFormat) -> None:
    """Print redacted notes as they come: a line each if the format has one, otherwise their text."""
    for note in redacted:
        if form.line_codec is not None:
            typer.echo(form.line_codec.encode(note.document))
        else:
            typer.echo(note.document.text, nl=False)
