"""Redaction for Python users: hide what identifies people in texts or documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast, overload

from wardround.api.trained_model import Model, as_document, load
from wardround.corpora.corpus_format import check_choice
from wardround.errors import UsageError
from wardround.redaction.patterns import Language
from wardround.redaction.redaction_settings import Ids, RedactionSettings
from wardround.redaction.replacing import How
from wardround.text.document import Document

__all__ = ["redact"]


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
    check_choice("language", language, Language)
    check_choice("way with ids", ids, Ids)
    if how not in {way.value for way in How}:
        raise UsageError(f"{how!r} is not a way to hide text; there are {', '.join(way.value for way in How)}")
    settings = RedactionSettings(How(how), cast(Language, language), threshold, patterns, patient, cast(Ids, ids))
    loaded = load(model) if isinstance(model, str | Path) else model
    key = settings.key(None if seed_file is None else Path(seed_file))
    redaction = settings.redaction(None if loaded is None else loaded.task, key)
    several = [notes] if isinstance(notes, str | Document) else notes
    documents = (as_document(note, number) for number, note in enumerate(several, start=1))
    redacted = (note.document for note in redaction.notes(documents))
    return next(redacted) if isinstance(notes, str | Document) else redacted
