"""Options and inputs that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.printing import Result, notice
from wardround.corpora.corpus_files import refuse_existing
from wardround.corpora.corpus_format import CorpusFormat, LineCodec, Reporter, fail_on_error
from wardround.corpora.formats import BUILT_IN_FORMATS, open_format
from wardround.corpora.recognition import AUTO, recognise
from wardround.corpora.skipped_faults import SkippedFaults
from wardround.corpora.type_names import checked_tag_set
from wardround.errors import CorpusError, UsageError
from wardround.settings import parse_settings
from wardround.text.document import Document
from wardround.text.phi_tag_sets import PHI_TAG_SETS

__all__ = [
    "FORMAT_HELP",
    "OUT_HELP",
    "Device",
    "Format",
    "FormatOptions",
    "ModelFolder",
    "ModelOptions",
    "OutFolder",
    "PhiTagSet",
    "SkipFaulty",
    "StudyFile",
    "Track",
    "TrainingOptions",
    "Types",
    "checked_tag_set",
    "chosen_format",
    "format_settings",
    "listed",
    "refuse_existing",
    "show_skipped",
    "skipped_faults",
    "standard_input",
]

FORMAT_HELP = f"One of {', '.join(BUILT_IN_FORMATS)}, a format of an installed package, or auto."
Format = Annotated[str, typer.Option("--format", help=FORMAT_HELP)]
FormatOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="An option of the format.")
]
ModelOptions = Annotated[
    list[str] | None, typer.Option("--model-option", metavar="NAME=VALUE", help="For example scheme=BIOES.")
]
TrainingOptions = Annotated[
    list[str] | None, typer.Option("--training-option", metavar="NAME=VALUE", help="For example epochs=20.")
]
SkipFaulty = Annotated[
    bool,
    typer.Option("--skip-faulty", help="Leave out faulty mentions, lines and files; count and list them."),
]
Types = Annotated[str | None, typer.Option("--types", help="Entity types, comma-separated; all by default.")]
PhiTagSet = Annotated[
    str,
    typer.Option(
        "--tag-set", help=f"Rename the types of the notes to those of this tag set: {', '.join(PHI_TAG_SETS)}."
    ),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
OUT_HELP = "The run folder; an interrupted run resumes there."
OutFolder = Annotated[Path, typer.Option("--out", help=OUT_HELP, file_okay=False)]
Track = Annotated[
    str, typer.Option("--track", help="Track the run with tensorboard, mlflow, or both (comma-separated).")
]
ModelFolder = Annotated[Path, typer.Argument(help="A model folder, or the run folder of `wardround train`.")]


def _existing_study(path: Path) -> Path:
    """Return the path of a study file; raise a UsageError that says how to write one if there is none."""
    if path.is_dir():
        raise UsageError(f"{path.name} is a folder; name the study file in it")
    if not path.is_file():
        raise UsageError(f"there is no study file {path.name}; `wardround study new {path.name}` writes one to edit")
    return path


StudyFile = Annotated[Path, typer.Argument(help="A study file, TOML.", callback=_existing_study)]


def chosen_format(name: str, options: list[str] | None, path: Path | None = None) -> CorpusFormat:
    """Return the format that the two options name; with the path of a corpus, `auto` recognises its format."""
    return open_format(*format_settings(name, options, path))


def format_settings(name: str, options: list[str] | None, path: Path | None = None) -> tuple[str, dict[str, str]]:
    """Return the name and the settings of a format; say which one `auto` has recognised, and why."""
    settings = parse_settings(options)
    if name != AUTO or path is None:
        return name, settings
    found = recognise(path)
    notice(f"wardround: {found}")
    return found.name, {**found.options, **settings}


def skipped_faults(skip_faulty: bool) -> SkippedFaults | None:
    """Return what collects faulty parts under `--skip-faulty`."""
    return SkippedFaults() if skip_faulty else None


def show_skipped(faults: SkippedFaults | None, result: Result) -> None:
    """Print how many faulty parts were left out and which; the JSON object lists all under `skipped`."""
    if faults is None:
        return
    for sentence in faults.sentences():
        notice(f"wardround: {sentence}")
    result.values(
        skipped=[
            {"file": None if found.path is None else found.path.name, "line": found.line, "message": found.message}
            for found in faults.problems
        ]
    )


def listed(text: str | None) -> tuple[str, ...] | None:
    """Split a comma-separated list: `"A, B"` becomes ("A", "B")."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def standard_input(codec: LineCodec | None = None) -> Iterator[Document]:
    """Yield standard input as one note or, with the codec of a format, one note from each line."""
    name = "stdin"
    try:
        if codec is None:
            # Read bytes: text mode would change line ends, and offsets with them.
            yield Document(name, sys.stdin.buffer.read().decode())
            return
        for number, line in enumerate(sys.stdin.buffer, start=1):
            if line.strip():
                report = Reporter(Path(name), fail_on_error, number)
                document = codec.decode(line.decode(), f"{name}:{number}", report)
                if document is not None:
                    yield document
    except UnicodeDecodeError:
        raise CorpusError("standard input is not UTF-8; convert it first, for example with iconv") from None
