"""The sections [task] and [public] of a study file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from wardround.errors import StudyError
from wardround.settings import did_you_mean
from wardround.studies.sections import as_text, parsed
from wardround.tasks.task_table import TASKS
from wardround.text.document import Level
from wardround.text.phi_tag_sets import PHI_TAG_SETS
from wardround.text.relation_sets import RelationSet, RelationType

__all__ = ["Ends", "PublicSection", "TaskSection", "public_from", "task_from"]

Ends = tuple[tuple[str, str], ...]  # pairs of entity types that a relation connects; empty means any


@dataclass(frozen=True)
class TaskSection:
    """The section [task]: entities, relations between given entities, or both from text."""

    kind: str = "ner"  # a name in the table of tasks
    relations: Mapping[str, Ends] = field(default_factory=dict)  # the relation types to learn
    directed: bool = True  # whether the order of head and tail matters
    level: Literal["mention", "concept"] = "mention"  # what the relations of the corpus connect
    negatives: float | None = None  # unrelated pairs per related pair in training; unset means all
    relation_weight: float = 1.0  # for joint: weight of the relation loss relative to the entity loss
    tag_set: Literal["", "hipaa", "i2b2-2014", "meddocan"] = ""  # for deidentify; empty means what sites annotate

    def __post_init__(self) -> None:
        if self.kind not in TASKS:
            near = did_you_mean(self.kind, TASKS)
            raise StudyError(f"kind is {self.kind!r}{near}; it can be {', '.join(TASKS)}")
        if self.tag_set and self.kind != "deidentify":
            raise StudyError("tag_set is for a task of kind deidentify; leave it out")
        if self.tags and self.relations:
            raise StudyError("relations are for a task of kind relations or joint")
        if not self.tags and not self.relations:
            raise StudyError(f"a task of kind {self.kind} needs its relations: name each type in [task.relations]")
        if self.negatives is not None and not self.negatives >= 0:
            raise StudyError(f"negatives is {self.negatives}; it must be zero or above")
        if not self.relation_weight > 0:
            raise StudyError(f"relation_weight is {self.relation_weight}; it must be above zero")
        if self.relations:
            self.relation_set  # noqa: B018 – refuses classes that cannot be told apart

    @property
    def family(self) -> str:
        """Return the task whose models and examples it uses: `ner` for `deidentify`, otherwise itself."""
        return TASKS[self.kind].variant_of or self.kind

    @property
    def tags(self) -> bool:
        """Return whether it tags words and nothing else, so that each site may have its own types."""
        return TASKS[self.kind].only_tags_words

    @property
    def reports_leakage(self) -> bool:
        """Return whether its scores say how much identifying text would stay readable."""
        return TASKS[self.kind].reports_leakage

    @property
    def phi_types(self) -> tuple[str, ...]:
        """Return the types of the tag set, which every site annotates unless it names fewer."""
        return PHI_TAG_SETS[self.tag_set].types if self.tag_set else ()

    @property
    def relation_set(self) -> RelationSet:
        """Return the classes of an entity pair."""
        types = tuple(RelationType(name, ends) for name, ends in self.relations.items())
        return RelationSet(types, directed=self.directed, level=Level(self.level))

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Return every entity type that some relation connects."""
        return tuple(dict.fromkeys(end for ends in self.relations.values() for pair in ends for end in pair))


@dataclass(frozen=True)
class PublicSection:
    """The section [public]: a small set of notes that all parties may read and sites predict on."""

    data: Path | None = None
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)  # options of the format
    built_in: str = ""  # a synthetic hospital that is not a site, instead of data and format
    labelled: bool = True  # whether its annotation is used for training, besides the teacher
    sha256: str = ""  # digest of its documents; not checked if empty

    def __post_init__(self) -> None:
        if self.built_in and (self.data or self.format):
            raise StudyError("names a built-in hospital and data; keep one of them")
        if self.data and not self.format:
            raise StudyError("names data; it needs a format as well")

    @property
    def is_there(self) -> bool:
        """Whether the study has a public set."""
        return bool(self.built_in or self.data)


def task_from(table: Mapping[str, Any]) -> TaskSection:
    """Parse the section [task]."""
    settings = dict(table)
    relations = settings.pop("relations", {})
    if not isinstance(relations, dict):
        raise StudyError('[task.relations] must be a section with one line per type, as ADE = [["Drug", "Effect"]]')
    ends = {name: _ends(name, found) for name, found in relations.items()}
    return parsed(TaskSection, settings, "task", more={"relations": ends})


def _ends(name: str, found: Any) -> Ends:
    pairs = found if isinstance(found, list) else [found]
    if not all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(e, str) for e in pair) for pair in pairs):
        raise StudyError(f'[task.relations] {name} must be a list of pairs of entity types, as [["Drug", "Effect"]]')
    return tuple((head, tail) for head, tail in pairs)


def public_from(table: Mapping[str, Any], folder: Path) -> PublicSection:
    """Parse the section [public]; its path is relative to `folder`."""
    settings = dict(table)
    options = settings.pop("options", {})
    if not isinstance(options, dict):
        raise StudyError("[public] options must be a table of the format's options")
    section = parsed(PublicSection, settings, "public")
    data = None if section.data is None else (folder / section.data).resolve()
    return replace(section, data=data, options={key: as_text(value) for key, value in options.items()})
