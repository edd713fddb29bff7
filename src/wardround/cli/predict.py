"""`wardround predict`: find entities in a stream of notes, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.text import Text

from wardround.api.trained_model import load
from wardround.cli.options import (
    Device,
    FormatOptions,
    ModelFolder,
    SkipFaulty,
    chosen_format,
    refuse_existing,
    show_skipped,
    skipped_faults,
    standard_input,
)
from wardround.cli.printing import Json, notice, printed, progress_console
from wardround.corpora.formats import writable_format
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.skipped_faults import sink_of
from wardround.corpora.stats import Tally
from wardround.reports.marked_notes import highlight
from wardround.text.document import Document
from wardround.text.plain_text import neutralise

__all__ = ["command"]


def command(
    model: ModelFolder,
    notes: Annotated[Path, typer.Argument(help="Notes: a file or folder, or - for standard input.")],
    format: Annotated[str, typer.Option(help="text, brat, jsonl or any other format of `wardround data`.")] = "text",
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
    out: Annotated[Path | None, typer.Option(help="A new file or folder to write; by default, show in colour.")] = None,
    to: Annotated[str, typer.Option(help="brat, jsonl, conll or any other format that can be written.")] = "jsonl",
    to_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the format to write.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Find entities; write them as brat, JSONL or CoNLL, or show them in the terminal.

    Standard input (-) is one note, or a note on each line with --format jsonl; without --out, the notes are then
    written to standard output as lines of JSON.
    """
    writer = writable_format(chosen_format(to, to_option))
    if out is not None:
        refuse_existing(out)
    piped, faults = str(notes) == "-", skipped_faults(skip_faulty)
    form = chosen_format(format, option, None if piped else notes)
    documents = standard_input(form.line_codec) if piped else form.read(notes, problems=sink_of(faults))
    loaded = load(model, device=device)
    found = loaded.pipe(documents)
    if out is None and json:
        _print_documents(found)
    elif out is None and piped:
        for document in found:
            typer.echo(_as_line(document))
    elif out is None:
        console = Console()
        for document in found:
            console.rule(Text(neutralise(document.id)), style="dim")
            console.print(highlight(document, types=loaded.types), soft_wrap=False)
    else:
        written = Tally()
        with printed(json) as result:
            writer.write(written.watch(track(found, description="notes", console=progress_console())), out)
            result.line(str(out), out=out, documents=written.counts.documents, entities=written.counts.entities)
            show_skipped(faults, result)
            return
    for sentence in faults.sentences() if faults else ():
        notice(f"wardround: {sentence}")


def _as_line(document: Document) -> str:
    return Jsonl().line_codec.encode(document)


def _print_documents(documents: Iterable[Document]) -> None:
    """Print `{"documents": […]}` as the notes come, in constant memory; each has the form of a line of JSONL."""
    typer.echo('{"documents": [', nl=False)
    for number, document in enumerate(documents):
        typer.echo((",\n" if number else "\n") + _as_line(document), nl=False)
    typer.echo("\n]}")
