"""`wardround predict`: entities in notes, in a stream of constant memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from wardround.cli.options import Device, FormatOptions, ModelFolder, chosen_format
from wardround.corpora.formats import open_format, writable
from wardround.errors import UsageError
from wardround.models.saved import load_model
from wardround.reports.coloured import coloured
from wardround.settings import parse_settings
from wardround.studies.single_site import pick_device
from wardround.tasks import ner
from wardround.text.document import Document

__all__ = ["command"]


def command(
    model: ModelFolder,
    notes: Annotated[Path, typer.Argument(help="Notes: a file or folder, or - for standard input.")],
    format: Annotated[str, typer.Option(help="text, brat, jsonl or any other format of `wardround data`.")] = "text",
    option: FormatOptions = None,
    out: Annotated[Path | None, typer.Option(help="Write here; without it, show in colour.")] = None,
    to: Annotated[str, typer.Option(help="brat, jsonl, conll or any other format that can be written.")] = "jsonl",
    to_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")] = None,
    device: Device = "auto",
) -> None:
    """Find entities; write them as brat, JSONL or CoNLL, or show them in the terminal."""
    tagger = load_model(model).to(pick_device(device))
    documents = _standard_input() if str(notes) == "-" else chosen_format(format, option).read(notes)
    found = ner.predict(tagger, documents)
    if out is None:
        _show(found, tagger.tag_set.types)
        return
    writer = writable(open_format(to, parse_settings(to_option)))
    if writer is None:
        raise UsageError(f"the format {to!r} can be read but not written; use brat, jsonl or conll")
    writer.write(track(found, description="notes", console=Console(stderr=True)), out)
    typer.echo(str(out))


def _standard_input() -> Iterator[Document]:
    yield Document("stdin", sys.stdin.read())


def _show(documents: Iterable[Document], types: tuple[str, ...]) -> None:
    console = Console()
    for document in documents:
        console.rule(document.id, style="dim")
        console.print(coloured(document, types=types), soft_wrap=False)
