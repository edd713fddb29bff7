"""The notes of a study: those of each site, those of the built-in hospitals, and the public set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from wardround.corpora.recognition import format_at
from wardround.corpora.skipped_faults import SkippedFaults
from wardround.corpora.synthetic import SyntheticSite, clinical_hospitals, many_hospitals, phi_hospitals
from wardround.corpora.tag_set_table import SiteTypes, TagSetTable
from wardround.corpora.type_names import in_tag_set, read_type_names, renamed
from wardround.errors import CorpusError, StudyError, UsageError
from wardround.federation.site_runtime import PublicSet
from wardround.settings import did_you_mean
from wardround.studies.single_site import SiteData, digest_of_documents, load_site
from wardround.studies.study_file import SiteSection, Study
from wardround.tasks.task import Task
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = [
    "annotated_at",
    "built_in_hospital",
    "check_place",
    "check_public",
    "load_notes",
    "public_digest",
    "public_documents",
    "public_set",
    "tag_sets_of",
    "with_digest",
]


# Notes of a site.


def check_place(name: str, section: SiteSection, *, types: Sequence[str] = ()) -> None:
    """Raise a StudyError if a site's notes do not exist, or its names map onto no type in `types`; read no note."""
    _check_data(name, section)
    _type_names(name, section, types)


def _check_data(name: str, section: SiteSection) -> None:
    if not section.built_in and section.data is None:
        raise StudyError(f"[sites.{name}] does not say where its notes are: it needs data and format, or built_in")
    if section.data is not None and not section.data.exists():
        raise StudyError(f"[sites.{name}] data: {section.data.name} does not exist")


def _type_names(name: str, section: SiteSection, types: Sequence[str]) -> dict[str, str]:
    try:
        return {} if section.names is None else read_type_names(section.names, types)
    except CorpusError as error:
        raise StudyError(f"[sites.{name}] names: {error}") from None


def load_notes(
    name: str,
    section: SiteSection,
    *,
    seed: int,
    types: Sequence[str] = (),
    tag_set: str = "",
    faults: SkippedFaults | None = None,
) -> SiteData:
    """Read the notes of a site, with the names that the study uses for `types`.

    A `tag_set` of identifying types renames the types of other such sets; a site's own mapping file is applied first.
    If the section skips faulty parts, they are collected in `faults`.
    """
    _check_data(name, section)
    names = _type_names(name, section, types)
    if section.built_in:
        hospital = built_in_hospital(section.built_in, seed)
        dev, test = hospital.dev, hospital.test
        if not set(section.scored) <= set(section.types):
            # Training notes hold the hospital's own types only; scored notes hold all that the study names.
            scored, complete = TagSet(section.scored), hospital.complete
            dev, test = (tuple(map(scored.restrict, part)) for part in (complete.dev, complete.test))
        notes = SiteData(hospital.train, dev, test)
    else:
        assert section.data is not None, "checked above"
        skipped = SkippedFaults() if faults is None else faults
        form = format_at(section.data, section.format, section.options)
        notes = load_site(section.data, form, faults=skipped if section.skip_faulty else None).data
    if names:
        notes = SiteData(renamed(notes.train, names), renamed(notes.dev, names), renamed(notes.test, names))
    return notes.in_tag_set(tag_set)


def annotated_at(study: Study, name: str, data: SiteData) -> TagSet:
    """Return the entity types that a site annotates; if the task is given entities, those of the study."""
    if not study.task.only_tags_words:
        return TagSet(study.types)
    types = study.sites[name].types or TagSet.of(data.train).types
    if not types:
        raise StudyError(f"[sites.{name}]: its training notes hold no entity to learn from")
    return TagSet(types)


def tag_sets_of(study: Study) -> TagSetTable:
    """Return which site annotates which types, with counts; only one site's notes are in memory at a time.

    Nothing is counted for a site whose notes are elsewhere.
    """
    if not study.task.only_tags_words:
        raise StudyError(f"[task] kind is {study.task.kind}: its entity types are the study's, the same at every site")
    sites = dict[str, SiteTypes]()
    for name, section in study.sites.items():
        if not section.built_in and section.data is None and section.types:
            sites[name] = SiteTypes(section.types, section.scored_types)
            continue
        notes = load_notes(name, section, seed=study.study.seed, types=study.types, tag_set=study.task.tag_set)
        types = annotated_at(study, name, notes)
        scored = TagSet(section.scored or types.types)
        sites[name] = SiteTypes.counted(types, scored, train=notes.train, test=notes.test)
    # A site that names no types annotates what its training notes hold.
    known = dict.fromkeys(kind for site in sites.values() for kind in site.types)
    return TagSetTable(tuple(known), sites)


# Built-in hospitals.


def built_in_hospital(name: str, seed: int) -> SyntheticSite:
    """Return the synthetic hospital of that name, written from `seed`; `harbour-0012` is one of many small ones."""
    number = name.partition("-")[2]
    if number.isdecimal():
        small = many_hospitals(int(number) + 1, seed)[int(number)]
        if small.name != name:
            raise StudyError(f"no built-in hospital is called {name!r} – did you mean {small.name!r}?")
        return small
    known = _clinical(seed)
    if name not in known:
        known = known | _identifying(seed)  # written only if a name is not among the others
    if name not in known:
        raise StudyError(
            f"no built-in hospital is called {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
        )
    return known[name]


@lru_cache(maxsize=2)
def _clinical(seed: int) -> dict[str, SyntheticSite]:
    return {hospital.name: hospital for hospital in clinical_hospitals(seed)}


@lru_cache(maxsize=2)
def _identifying(seed: int) -> dict[str, SyntheticSite]:
    return {hospital.name: hospital for hospital in phi_hospitals(seed)}


# The public set.


def check_public(study: Study) -> None:
    """Raise a StudyError if the public set does not exist; read nothing of it."""
    data = study.public.data
    if data is not None and not data.exists():
        raise StudyError(f"[public] data: {data.name} does not exist")


def public_documents(study: Study) -> tuple[Document, ...]:
    """Read the public set; raise a StudyError if it is not the one that the study names."""
    section = study.public
    if not section.exists:
        return ()
    check_public(study)
    try:
        if section.built_in:
            documents = tuple(built_in_hospital(section.built_in, study.study.seed).train)
        else:
            assert section.data is not None, "a public set is built in or has data"
            options = tuple(sorted(section.options.items()))
            documents = _read_public(section.data, section.format, options, _state(section.data))
    except (StudyError, UsageError) as error:  # an unknown name
        raise StudyError(f"[public] {'built_in' if section.built_in else 'format'}: {error}") from None
    if not documents:
        raise StudyError("[public] holds no document")
    if section.sha256 and section.sha256 != public_digest(documents):
        raise StudyError("[public] holds other documents than the study was made with (sha256 differs)")
    return documents


def public_set(study: Study, task: Task) -> PublicSet:
    """Return the public set as examples of a task, with the study's type names; empty if the study has none."""
    documents = in_tag_set(public_documents(study), study.task.tag_set)
    return PublicSet(task.public(documents), study.public.labelled) if documents else PublicSet()


def with_digest(study: Study) -> Study:
    """Return the study with the digest of its public set; each party checks its copy against it."""
    documents = public_documents(study)
    return replace(study, public=replace(study.public, sha256=public_digest(documents))) if documents else study


def public_digest(documents: tuple[Document, ...]) -> str:
    """Return the digest that parties compare, so that all predict on the same documents."""
    return sha256(digest_of_documents(documents)).hexdigest()


@lru_cache(maxsize=2)
def _read_public(
    path: Path, form: str, options: tuple[tuple[str, str], ...], state: tuple[int, ...]
) -> tuple[Document, ...]:
    """Read once for all sites of a process; `state` changes if the files do, and then they are read again."""
    return tuple(format_at(path, form, dict(options)).read(path))


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers that change if a file at or below a path is written."""
    files = [file.stat() for file in (path, *path.rglob("*")) if file.exists()]
    return len(files), sum(file.st_size for file in files), max(file.st_mtime_ns for file in files)
