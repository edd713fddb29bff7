"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.corpora.corpus_format import CorpusFormat
from wardround.corpora.formats import BUILT_IN_FORMATS, open_format
from wardround.errors import UsageError
from wardround.settings import did_you_mean, parse_settings
from wardround.text.phi_tag_sets import PHI_TAG_SETS

__all__ = [
    "FORMAT_HELP",
    "Device",
    "Format",
    "FormatOptions",
    "ModelFolder",
    "OutFolder",
    "PhiTagSet",
    "Track",
    "Types",
    "checked_tag_set",
    "chosen_format",
    "listed",
    "refuse_existing",
]

FORMAT_HELP = f"One of {', '.join(BUILT_IN_FORMATS)}, or a format of an installed package."
Format = Annotated[str, typer.Option("--format", help=FORMAT_HELP)]
FormatOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="An option of the format.")
]
Types = Annotated[str | None, typer.Option("--types", help="Entity types, parted by commas; all by default.")]
PhiTagSet = Annotated[
    str,
    typer.Option("--tag-set", help=f"Call the types of the notes as one of these does: {', '.join(PHI_TAG_SETS)}."),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
OutFolder = Annotated[
    Path, typer.Option("--out", help="The run folder; what was interrupted goes on there.", file_okay=False)
]
Track = Annotated[str, typer.Option("--track", help="Show the run in tensorboard, in mlflow, or in both.")]
ModelFolder = Annotated[Path, typer.Argument(help="A folder that `wardround train` wrote.", exists=True)]


def checked_tag_set(name: str) -> str:
    """The name of a tag set of what identifies people, or nothing."""
    if name and name not in PHI_TAG_SETS:
        near = did_you_mean(name, PHI_TAG_SETS)
        raise UsageError(f"--tag-set {name!r} is unknown{near}; there are {', '.join(PHI_TAG_SETS)}")
    return name


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
