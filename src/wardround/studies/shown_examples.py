"""Example predictions that may be shown: on notes of built-in hospitals, and on a study's public set.

That a note is synthetic is known from the study itself: a site whose section says `built_in` has its notes written by
this program, from the study's seed, and no other notes are ever looked at. Among hospitals a study's file says nothing
of where notes are, and so there is no site to show. The public set is what the study declares that everybody may read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

from wardround.errors import ModelError, StudyError
from wardround.models.saved import load_model
from wardround.reports.marked_notes import Excerpt
from wardround.reports.run_record import RunRecord
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import run_folder_at, study_in
from wardround.studies.study_file import Study
from wardround.studies.study_notes import load_notes, public_documents
from wardround.tasks.task_table import task_of
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = ["with_examples"]

_LONGEST = 900  # characters of a note that is shown
_MOST_SITES = 4  # whose models are loaded
_NOBODY = "None: this study has no public set and no site of the built-in corpus, and notes of a site are never shown."
_NO_MODEL = "None: no model lies in the folder that could predict on notes which may be shown."


def with_examples(record: RunRecord, path: Path, count: int) -> RunRecord:
    """The record with so many examples, or with the reason why it has none."""
    folder = run_folder_at(path)
    study = study_in(folder)
    if study is None or not count:
        return record
    synthetic = [name for name, site in study.sites.items() if site.built_in][:_MOST_SITES]
    if not synthetic and not study.public.is_there:
        return replace(record, no_excerpts=_NOBODY)
    by_source = [*(list(_of_site(folder, study, name, count)) for name in synthetic)]
    by_source.append(list(_of_public_set(folder, study, count)))
    # In turn, so that few examples are of many sites.
    taken = [found for found in chain.from_iterable(zip_longest(*by_source)) if found is not None]
    return replace(record, excerpts=tuple(taken[:count]), no_excerpts="" if taken else _NO_MODEL)


def _of_site(folder: Path, study: Study, name: str, count: int) -> Iterator[Excerpt]:
    section = study.sites[name]
    assert section.built_in, "only notes that nobody owns are shown"
    own, common = RunFolder(folder).site(name) / "model", folder / "model"
    notes = load_notes(name, section, seed=study.study.seed, types=study.types).test
    where = f"{name}: a note of the built-in hospital {section.built_in}, which never existed"
    yield from _predicted(own if own.is_dir() else common, notes, where, count)


def _of_public_set(folder: Path, study: Study, count: int) -> Iterator[Excerpt]:
    try:
        notes = public_documents(study)
    except StudyError:  # it is not here, or no longer what it was
        return
    yield from _predicted(folder / "model", notes, "A note of the study's public set", count)


def _predicted(model: Path, notes: Sequence[Document], where: str, count: int) -> Iterator[Excerpt]:
    short = [note for note in notes if len(note.text) <= _LONGEST][:count]
    if not short:
        return
    try:
        task = task_of(load_model(model), leakage=False)
    except ModelError:
        return
    known, finds_relations = TagSet(task.entity_types), task.finds_relations
    for gold, found in zip(short, task.predict(short), strict=True):
        shown = known.restrict(gold) if known.types else gold
        yield Excerpt(where, shown if finds_relations else replace(shown, relations=()), found)
