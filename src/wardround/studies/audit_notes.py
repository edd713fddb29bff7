"""The notes that an audit trains on: those of built-in hospitals with the types of the study, or a site's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from wardround.corpora.corpus_format import CorpusFormat
from wardround.corpora.synthetic import CLINICAL_TYPES
from wardround.errors import UsageError
from wardround.federation.federation import SiteId
from wardround.studies.privacy_units import PATIENT
from wardround.studies.single_site import SiteData, load_site
from wardround.studies.study_file import Study
from wardround.studies.study_notes import built_in_hospital
from wardround.tasks.task_table import TASKS
from wardround.text.alignment import align
from wardround.text.document import Document
from wardround.text.segmentation import words_of

__all__ = ["audit_notes", "built_in_words", "mean_sentence", "training_notes"]

_HOSPITALS = ("harbour", "hillside", "riverside", "lakeside")
_IDENTIFYING = ("northgate", "southmere")
_SENTENCES = 320  # of a site: enough for several updates, few enough for an epoch within the time of an audit
_LARGEST_SITE = 4_000
_DEV = 4  # notes


def audit_notes(study: Study, sites: Sequence[SiteId], notes: Sequence[Document] = ()) -> dict[SiteId, SiteData]:
    """Return notes for each of the sites: parts of `notes`, or without them those of built-in hospitals."""
    most = max(_SENTENCES, min(2 * study.privacy.smallest_batch, _LARGEST_SITE))
    settings = study.privacy.differential_privacy
    if settings is not None:  # the sites of the study may not have more than 1 / delta units together
        most = max(1, min(most, int(1 / settings.delta / len(study.sites))))
    if notes:
        parts = [notes[number :: len(sites)] for number in range(len(sites))]
    else:
        parts = [built_in_notes(study, number, name) for number, name in enumerate(sites)]
    found = {}
    for name, documents in zip(sites, parts, strict=True):
        chosen = [_with_patient(document) for document in _first_sentences(documents, most)]
        if len(chosen) < 1:
            raise UsageError(f"{len(notes)} notes are too few for an audit of {len(sites)} sites")
        rest = documents[len(chosen) : len(chosen) + _DEV] or documents[:1]
        found[name] = SiteData(tuple(chosen), tuple(map(_with_patient, rest)))
    return found


def training_notes(path: Path, form: CorpusFormat) -> tuple[Document, ...]:
    """Read the training notes of a corpus, split or not; raise a `UsageError` if there are none."""
    notes = load_site(path, form).data.train
    if not notes:
        raise UsageError(f"{path.name} has no training notes to audit with")
    return notes


def built_in_notes(study: Study, number: int, site: SiteId) -> Sequence[Document]:
    """Return the training notes of a built-in hospital, its types renamed to those of the site in turn."""
    kind, section, seed = TASKS[study.task.kind], study.sites[site], study.study.seed
    if kind.finds_relations:
        raise UsageError(
            f"the built-in notes have no relations for a task of kind {kind.name}; audit it on notes with --data"
        )
    if section.built_in:
        return tuple(built_in_hospital(section.built_in, seed).train)
    names = _IDENTIFYING if kind.reports_leakage else _HOSPITALS
    documents = built_in_hospital(names[number % len(names)], seed).complete.train
    kinds = sorted({entity.type for document in documents for entity in document.entities})
    types = section.types or study.types or CLINICAL_TYPES
    renamed: Mapping[str, str] = dict(zip(kinds, cycle(types), strict=False))
    return [
        document.with_entities(replace(entity, type=renamed[entity.type]) for entity in document.entities)
        for document in documents
    ]


def built_in_words(study: Study) -> set[str]:
    """Return the words of the built-in hospitals, which are in every attacker's dictionary."""
    hospitals = [built_in_hospital(name, study.study.seed) for name in _HOSPITALS]
    return {
        document.text[start:end]
        for hospital in hospitals
        for document in hospital.train
        for start, end in words_of(document)
    }


def mean_sentence(study: Study) -> float:
    """Return the mean number of words of a sentence in the notes of a built-in hospital."""
    documents = built_in_hospital(_HOSPITALS[0], study.study.seed).train[:50]
    lengths = [len(sentence.words) for document in documents for sentence in align(document).sentences]
    return sum(lengths) / len(lengths)


def _first_sentences(documents: Sequence[Document], most: int) -> Iterator[Document]:
    """Yield notes until they have so many sentences, at least one note."""
    total = 0
    for document in documents:
        sentences = len(align(document).sentences)
        if total and total + sentences > most:
            return
        total += sentences
        yield document


def _with_patient(document: Document) -> Document:
    """Return the note with a patient, for studies whose unit of privacy is a patient."""
    if PATIENT in dict(document.attributes):
        return document
    return replace(document, attributes=(*document.attributes, (PATIENT, document.id)))
