"""Redaction for Python users: hide what identifies people in texts or documents."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast, overload

from rich.console import Console
from rich.progress import track

from wardround.api.corpus import FormatOptions, format_of
from wardround.api.trained_model import Model, as_document, load, model_folder
from wardround.corpora.corpus_files import refuse_existing
from wardround.corpora.corpus_format import check_choice
from wardround.corpora.skipped_faults import SkippedFaults, sink_of
from wardround.errors import CorpusWarning, UsageError
from wardround.redaction.outputs import check_output, output_for
from wardround.redaction.patterns import Language
from wardround.redaction.redaction_run import AUDIT, redact_into
from wardround.redaction.redaction_settings import Ids, RedactionSettings
from wardround.redaction.replacing import How
from wardround.text.document import Document

__all__ = [
    "RedactedFolder",
    "redact",
    "redact_folder",
    "redacted_documents",
    "redaction_settings",
    "write_redacted",
]


@overload
def redact(  # type: ignore[overload-overlap]  # a text is an iterable of texts too
    notes: str | Document,
    *,
    model: Model | str | Path | None = ...,
    how: str = ...,
    language: str = ...,
    threshold: float | None = ...,
    patterns: bool = ...,
    patient: str = ...,
    ids: str = ...,
    seed_file: str | Path | None = ...,
) -> Document: ...
@overload
def redact(
    notes: Iterable[str | Document],
    *,
    model: Model | str | Path | None = ...,
    how: str = ...,
    language: str = ...,
    threshold: float | None = ...,
    patterns: bool = ...,
    patient: str = ...,
    ids: str = ...,
    seed_file: str | Path | None = ...,
) -> Iterator[Document]: ...
def redact(
    notes: str | Document | Iterable[str | Document],
    *,
    model: Model | str | Path | None = None,
    how: str = "mask",
    language: str = "en",
    threshold: float | None = None,
    patterns: bool = True,
    patient: str = "note",
    ids: str = "keep",
    seed_file: str | Path | None = None,
) -> Document | Iterator[Document]:
    """Hide what identifies people: of one note return the redacted note, of several yield them in order.

    Without a model only patterns are used, which find dates, numbers and addresses but no names.

    Args:
        notes: a text, a document, or several of them.
        model: a model that finds identifying entities, or its folder.
        how: what replaces the hidden text: mask, block, tag or surrogate.
        language: the language of patterns and surrogates: en or es.
        threshold: also hide words that the model finds identifying with a probability above this.
        patterns: whether dates, numbers and addresses are hidden by their form.
        patient: which notes are of one patient, whose dates are shifted alike: note, folder, or the name of an
            attribute.
        ids: keep the ids of notes, or hash them.
        seed_file: a file with the site's key of surrogates and hashed ids, created if it is missing; without it a
            random key is used.

    >>> import wardround
    >>> wardround.redact("Seen on 12/03/2024, call 555-867-5309.").text
    'Seen on ██████████, call ████████████.'
    """
    settings = redaction_settings(how, language, threshold, patterns=patterns, patient=patient, ids=ids)
    loaded = load(model) if isinstance(model, str | Path) else model
    several = [notes] if isinstance(notes, str | Document) else notes
    documents = (as_document(note, number) for number, note in enumerate(several, start=1))
    redacted = redacted_documents(documents, settings, model=loaded, seed_file=seed_file)
    return next(redacted) if isinstance(notes, str | Document) else redacted


def redacted_documents(
    documents: Iterable[Document],
    settings: RedactionSettings,
    *,
    model: Model | None = None,
    seed_file: str | Path | None = None,
) -> Iterator[Document]:
    """Yield the redacted documents; raise an error at once if the settings cannot be used."""
    key = settings.key(None if seed_file is None else Path(seed_file))
    redaction = settings.redaction(None if model is None else model.predictor, key)
    return (note.document for note in redaction.notes(documents))


@dataclass(frozen=True)
class RedactedFolder:
    """A finished redaction into a folder: how many notes there are, and what was hidden.

    >>> import wardround
    >>> done = wardround.redact_folder("notes/test", "hidden", format="brat", progress=False)
    >>> done.notes, done.audit.name
    (12, 'audit.jsonl')
    """

    folder: Path
    audit: Path  # what was hidden in which note, without its text
    notes: int  # redacted by this call
    hidden: Mapping[str, int]  # replacements by type, in these notes


def redact_folder(
    notes: str | Path | Iterable[Document],
    out: str | Path,
    *,
    format: str = "text",
    format_options: FormatOptions | None = None,
    model: str | Path | None = None,
    how: str = "mask",
    language: str = "en",
    threshold: float | None = None,
    patterns: bool = True,
    patient: str = "note",
    ids: str = "keep",
    seed_file: str | Path | None = None,
    review: str | Path | None = None,
    resume: bool = False,
    skip_faulty: bool = False,
    device: str = "auto",
    progress: bool = True,
) -> RedactedFolder:
    """Redact notes into a new folder, with an audit file of what was hidden where; no original is kept.

    Args:
        notes: a file or folder, or documents.
        out: the folder; with `resume`, an interrupted run continues there.
        format: the format of the notes, in which they are also written.
        model: the folder of a model that finds identifying entities.
        review: an HTML page to write, which shows redacted notes.
        resume: whether an interrupted run is continued.
        skip_faulty: leave out faulty mentions, lines and files of the notes, and warn about them.
        progress: whether a progress bar is shown.

    The other options are those of `redact`.

    >>> import wardround
    >>> wardround.redact_folder("notes/test", "redacted", format="brat", progress=False).notes
    12
    """
    settings = redaction_settings(how, language, threshold, patterns=patterns, patient=patient, ids=ids)
    return write_redacted(
        notes,
        Path(out),
        settings,
        format=format,
        format_options=format_options,
        model=model,
        seed_file=seed_file,
        review=review,
        resume=resume,
        skip_faulty=skip_faulty,
        device=device,
        progress=progress,
    )


def write_redacted(
    notes: str | Path | Iterable[Document],
    out: Path,
    settings: RedactionSettings,
    *,
    format: str,
    format_options: FormatOptions | None = None,
    model: str | Path | None = None,
    seed_file: str | Path | None = None,
    review: str | Path | None = None,
    resume: bool = False,
    skip_faulty: bool = False,
    device: str = "auto",
    progress: bool = True,
) -> RedactedFolder:
    """Redact notes into a folder, as `redact_folder` does."""
    page = None if review is None else Path(review)
    key = settings.key(None if seed_file is None else Path(seed_file), resume=resume)
    named_path = Path(notes) if isinstance(notes, str | Path) else None
    form, faults = format_of(format, format_options or {}, named_path), SkippedFaults() if skip_faulty else None
    format = form.name
    check_output(format, form)
    for path in (out, page):
        if path is not None and not resume:
            refuse_existing(path)
    task = None if model is None else load(model, device=device).predictor
    redaction = settings.redaction(task, key)
    documents = form.read(Path(notes), problems=sink_of(faults)) if isinstance(notes, str | Path) else notes
    named = " ".join((format, *(f"{name}={value}" for name, value in (format_options or {}).items())))
    done = redact_into(
        out,
        documents,
        redaction,
        output=lambda keep: output_for(format, form, out, keep=keep),
        settings=settings.for_journal(
            format=named, model=None if model is None else model_folder(model), key=key, review=page is not None
        ),
        resume=resume,
        review=page,
    )
    count, hidden = 0, Counter[str]()
    for note in track(done, description="notes", console=Console(stderr=True, quiet=not progress)):
        count += 1
        hidden.update(mark.type for mark in note.redacted.marks)
    for sentence in faults.sentences() if faults else ():
        warnings.warn(sentence, CorpusWarning, stacklevel=2)
    return RedactedFolder(out, out / AUDIT, count, hidden)


def redaction_settings(
    how: str, language: str, threshold: float | None, *, patterns: bool, patient: str, ids: str
) -> RedactionSettings:
    """Return the settings of a redaction; raise `UsageError` for a value that an option does not have."""
    check_choice("language", language, Language)
    check_choice("way with ids", ids, Ids)
    if how not in {way.value for way in How}:
        raise UsageError(f"{how!r} is not a way to hide text; there are {', '.join(way.value for way in How)}")
    return RedactionSettings(How(how), cast(Language, language), threshold, patterns, patient, cast(Ids, ids))
