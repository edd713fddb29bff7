"""The public set of a study: read, compared with what was agreed, and made into examples of a task."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from wardround.corpora.formats import open_format
from wardround.corpora.type_names import in_tag_set
from wardround.errors import StudyError, UsageError
from wardround.federation.site_runtime import PublicSet
from wardround.studies.single_site import digest_of_documents
from wardround.studies.study_file import PublicSection, Study
from wardround.studies.synthetic_sites import built_in_hospital
from wardround.tasks.task import Task
from wardround.text.document import Document

__all__ = ["check_public", "public_digest", "public_documents", "public_set", "with_digest"]


def check_public(study: Study) -> None:
    """Refuse a study whose public set is nowhere; nothing of it is read."""
    data = study.public.data
    if data is not None and not data.exists():
        raise StudyError(f"[public] data: {data.name} does not exist")


def public_documents(study: Study) -> tuple[Document, ...]:
    """What everybody may read; refused where it is not what the study says it is."""
    section = study.public
    if not section.is_there:
        return ()
    check_public(study)
    documents = _found(section, study.study.seed)
    if not documents:
        raise StudyError("[public] holds no document")
    if section.sha256 and section.sha256 != public_digest(documents):
        raise StudyError("[public] holds other documents than the study was made with (sha256 differs)")
    return documents


def public_set(study: Study, task: Task) -> PublicSet:
    """The same as examples of a task, its types named as the study does; empty where the study has none."""
    documents = in_tag_set(public_documents(study), study.task.tag_set)
    return PublicSet(task.public(documents), study.public.labelled) if documents else PublicSet()


def with_digest(study: Study) -> Study:
    """The same study, saying what its public set holds: each party then knows whether it has the same."""
    documents = public_documents(study)
    return replace(study, public=replace(study.public, sha256=public_digest(documents))) if documents else study


def public_digest(documents: tuple[Document, ...]) -> str:
    """By which the parties know that they predict on the same documents."""
    return sha256(digest_of_documents(documents)).hexdigest()


def _found(section: PublicSection, seed: int) -> tuple[Document, ...]:
    try:
        if section.built_in:
            return tuple(built_in_hospital(section.built_in, seed).train)
        assert section.data is not None
        return _read(section.data, section.format, tuple(sorted(section.options.items())), _state(section.data))
    except (StudyError, UsageError) as error:  # of a name that nobody knows
        raise StudyError(f"[public] {'built_in' if section.built_in else 'format'}: {error}") from None


@lru_cache(maxsize=2)
def _read(path: Path, form: str, options: tuple[tuple[str, str], ...], state: tuple[int, ...]) -> tuple[Document, ...]:
    """Once for all sites of a process; what was written since, `state` tells, is read again."""
    return tuple(open_format(form, dict(options)).read(path))


def _state(path: Path) -> tuple[int, ...]:
    """By which it shows that something below a path was written."""
    files = [file.stat() for file in (path, *path.rglob("*")) if file.exists()]
    return len(files), sum(file.st_size for file in files), max(file.st_mtime_ns for file in files)
