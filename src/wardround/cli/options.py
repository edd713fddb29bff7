"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.corpora.formats import FORMATS, open_format
from wardround.corpora.source import CorpusFormat
from wardround.errors import UsageError
from wardround.settings import parse_settings

__all__ = [
    "FORMAT_HELP",
    "Device",
    "Format",
    "FormatOptions",
    "ModelFolder",
    "OutFolder",
    "Types",
    "chosen_format",
    "listed",
    "refuse_existing",
]

FORMAT_HELP = "One of " + ", ".join(FORMATS) + "."
Format = Annotated[str, typer.Option("--format", help=FORMAT_HELP)]
FormatOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="An option of the format.")
]
Types = Annotated[str | None, typer.Option("--types", help="Entity types, parted by commas; all by default.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
OutFolder = Annotated[
    Path, typer.Option("--out", help="The run folder; what was interrupted goes on there.", file_okay=False)
]
ModelFolder = Annotated[Path, typer.Argument(help="A folder that `wardround train` wrote.", exists=True)]


def chosen_format(name: str, options: list[str] | None) -> CorpusFormat:
    """The format the two options name."""
    return open_format(name, parse_settings(options))


def listed(text: str | None) -> tuple[str, ...] | None:
    """`"A, B"` as ("A", "B")."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def refuse_existing(path: Path) -> None:
    """What is there already, perhaps the very notes that are read, is never written over."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise UsageError(f"{path.name} exists already; name a new file or folder")
