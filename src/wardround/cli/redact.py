"""`wardround redact`: notes with what identifies people masked, tagged or replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from rich.console import Console
from rich.progress import track

from wardround.cli.options import Device, FormatOptions, chosen_format, refuse_existing
from wardround.corpora.corpus_format import CorpusFormat, Reporter, check_choice, fail_on_error
from wardround.errors import CorpusError, UsageError
from wardround.models.saved import load_model
from wardround.redaction.finders import Finder, model_finder, pattern_finder
from wardround.redaction.journal import Settings
from wardround.redaction.keyed import Keyed, new_key, read_key
from wardround.redaction.outputs import Output, check_output, output_for
from wardround.redaction.patterns import Language, Patterns
from wardround.redaction.redaction_run import AUDIT, Naming, Redaction, redact_into
from wardround.redaction.replacing import How, Replacer
from wardround.studies.single_site import pick_device
from wardround.tasks.task_table import task_of
from wardround.text.document import Document

__all__ = ["command"]

Ids = Literal["keep", "hash"]

_STANDARD_INPUT = Path("stdin")
_HASH_LENGTH = 32  # hexadecimal digits
_RULES = 2  # counts up when patterns or surrogates change: a run is not resumed under other ones
_THRESHOLD = (
    "Also hide every word that the model holds to be identifying with a probability above this, between 0 and 1: "
    "the lower, the fewer are missed and the more is hidden in vain. Without it, what the model finds most "
    "likely is hidden."
)
_PATIENT = (
    "Whose a note is: note (each is its own), folder (notes of one folder), or the name of an attribute. The dates of "
    "a patient move by the same number of weeks."
)
_SEED = (
    "The key of surrogates and hashed ids: 64 hexadecimal digits, which stay at the site; made where it is not there."
)


def command(
    notes: Annotated[Path, typer.Argument(help="Notes: a file or folder, or - for standard input.")],
    model: Annotated[Path | None, typer.Option(help="A folder that `wardround train` wrote.", exists=True)] = None,
    out: Annotated[
        Path | None, typer.Option(help="A new folder; without it, notes of - go to standard output.")
    ] = None,
    format: Annotated[str, typer.Option(help="text, brat, jsonl or any other format that can be written.")] = "text",
    option: FormatOptions = None,
    how: Annotated[How, typer.Option(help="What takes the place of what is hidden.")] = How.MASK,
    threshold: Annotated[float | None, typer.Option(help=_THRESHOLD)] = None,
    patterns: Annotated[bool, typer.Option(help="Also hide dates, numbers and addresses by their form.")] = True,
    language: Annotated[str, typer.Option(help="Of patterns and surrogates: en or es.")] = "en",
    patient: Annotated[str, typer.Option(help=_PATIENT)] = "note",
    ids: Annotated[
        str, typer.Option(help="keep the ids of notes, or hash them: file names may identify too.")
    ] = "keep",
    seed_file: Annotated[Path | None, typer.Option(help=_SEED, dir_okay=False)] = None,
    review: Annotated[Path | None, typer.Option(help="An HTML page of the redacted notes.", dir_okay=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    device: Device = "auto",
) -> None:
    """Redact notes into a folder, with an audit file of what was hidden where; no original is kept or shown."""
    check_choice("language", language, Language)
    check_choice("way with ids", ids, Ids)
    wanted = _Wanted(how, cast(Language, language), threshold, patterns, patient, cast(Ids, ids))
    key = _key(wanted, seed_file, resume=resume)
    form = chosen_format(format, option)
    check_output(format, form)
    for place in (out, review):
        if place is not None and not resume:
            refuse_existing(place)
    find = _finder(model, wanted, device)
    redaction = Redaction(find, Replacer(how, wanted.language, key), _naming(wanted, key))
    documents = _standard_input(form) if str(notes) == "-" else form.read(notes)
    if out is None:
        _refuse_without_folder(notes, review, resume=resume)
        _to_standard_output(redaction, documents, form)
        return
    settings = wanted.settings(
        format=" ".join((format, *(option or ()))), model=model, key=key, review=review is not None
    )
    done = redact_into(
        out,
        documents,
        redaction,
        output=_opener(format, form, out),
        settings=settings,
        resume=resume,
        review=review,
    )
    count = sum(1 for _ in track(done, description="notes", console=Console(stderr=True)))
    typer.echo(f"{count:,} notes redacted into {out.name}; what was hidden where is in {AUDIT}")


@dataclass(frozen=True)
class _Wanted:
    """What decides on the output; a resumed run must want the same."""

    how: How
    language: Language
    threshold: float | None
    patterns: bool
    patient: str
    ids: Ids

    @property
    def needs_key(self) -> bool:
        return self.how is How.SURROGATE or self.ids == "hash"

    def settings(self, *, format: str, model: Path | None, key: Keyed, review: bool) -> Settings:
        """For the journal; of the key only what tells it from another."""
        return {
            "how": self.how.value,
            "language": self.language,
            "threshold": self.threshold,
            "patterns": self.patterns,
            "patient": self.patient,
            "ids": self.ids,
            "format": format,
            "review": review,
            "model": None if model is None else _digest(model),
            "key": key.digest("which").hex() if self.needs_key else None,
            "version of the rules": _RULES,
        }


def _key(wanted: _Wanted, seed_file: Path | None, *, resume: bool) -> Keyed:
    """The site's key; without a file, one that ends with the run, so that nobody can repeat its choices."""
    if seed_file is not None:
        return Keyed(read_key(seed_file))
    if wanted.needs_key and resume:
        raise UsageError("a run with surrogates or hashed ids resumes only with the key it had: give its --seed-file")
    return Keyed(new_key())


def _finder(model: Path | None, wanted: _Wanted, device: str) -> Finder:
    patterns = Patterns(wanted.language) if wanted.patterns else None
    if model is not None:
        task = task_of(load_model(model).to(pick_device(device)))
        return model_finder(task, threshold=wanted.threshold, patterns=patterns)
    if patterns is None or wanted.threshold is not None:
        raise UsageError("give a --model: without one, patterns alone decide, and there is no threshold")
    typer.echo("wardround: no --model: patterns find no names, streets or places", err=True)
    return pattern_finder(patterns)


def _digest(model: Path) -> str:
    """Of every file of a model."""
    whole = sha256()
    for path in sorted(path for path in model.rglob("*") if path.is_file()):
        with path.open("rb") as stream:
            whole.update(f"{path.relative_to(model).as_posix()} {file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def _naming(wanted: _Wanted, key: Keyed) -> Naming:
    names = key.child("ids")

    def name_of(document: Document) -> str:
        return document.id if wanted.ids == "keep" else names.digest(document.id).hex()[:_HASH_LENGTH]

    def patient_of(document: Document) -> str:
        if wanted.patient == "note":
            return document.id
        if wanted.patient == "folder":
            return document.id.rpartition("/")[0]
        found = dict(document.attributes).get(wanted.patient)
        if found is None:
            raise CorpusError(f"document {document.id!r} has no attribute {wanted.patient!r}, which tells its patient")
        return found

    return Naming(name_of, patient_of)


def _standard_input(form: CorpusFormat) -> Iterator[Document]:
    """Yield one note, or one note from each line if the format has one document on each line."""
    codec = form.line_codec
    try:
        if codec is None:
            # As bytes: read as text, line ends would change, and offsets with them.
            yield Document(_STANDARD_INPUT.name, sys.stdin.buffer.read().decode())
            return
        for number, line in enumerate(sys.stdin.buffer, start=1):
            if line.strip():
                report = Reporter(_STANDARD_INPUT, fail_on_error, number)
                document = codec.decode(line.decode(), f"{_STANDARD_INPUT.name}:{number}", report)
                if document is not None:
                    yield document
    except UnicodeDecodeError:
        raise CorpusError("standard input is not UTF-8; convert it first, for example with iconv") from None


def _opener(name: str, form: CorpusFormat, folder: Path) -> Callable[[int], Output]:
    return lambda keep: output_for(name, form, folder, keep=keep)


def _refuse_without_folder(notes: Path, review: Path | None, *, resume: bool) -> None:
    if str(notes) != "-" or review is not None or resume:
        raise UsageError("give a folder to write to: --out FOLDER; only notes from standard input go without")


def _to_standard_output(redaction: Redaction, documents: Iterable[Document], form: CorpusFormat) -> None:
    for note in redaction.notes(documents):
        if form.line_codec is not None:
            typer.echo(form.line_codec.encode(note.document))
        else:
            typer.echo(note.document.text, nl=False)
