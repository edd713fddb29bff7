"""Who annotates what in a study, as its sites' notes show."""

from __future__ import annotations

from wardround.corpora.tag_set_table import SiteTypes, TagSetTable
from wardround.errors import StudyError
from wardround.studies.site_setup import annotated_at, load_notes
from wardround.studies.study_file import Study
from wardround.text.tag_sets import TagSet

__all__ = ["tag_sets_of"]


def tag_sets_of(study: Study) -> TagSetTable:
    """The types of every site; one site's notes are in memory at a time, of one that names none nothing is counted."""
    if not study.task.tags:
        raise StudyError(f"[task] kind is {study.task.kind}: its entity types are the study's, the same at every site")
    sites = {name: _site(study, name) for name in study.sites}
    # A site that names no types annotates what its training notes hold.
    known = dict.fromkeys(kind for site in sites.values() for kind in site.types)
    return TagSetTable(tuple(known), sites)


def _site(study: Study, name: str) -> SiteTypes:
    section = study.sites[name]
    if not section.built_in and section.data is None and section.types:
        return SiteTypes(section.types, section.scored_types)
    notes = load_notes(name, section, seed=study.study.seed, types=study.types, tag_set=study.task.tag_set)
    types = annotated_at(study, name, notes)
    return SiteTypes.counted(types, TagSet(section.scored or types.types), train=notes.train, test=notes.test)
