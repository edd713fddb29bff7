"""The sections of a study file as frozen dataclasses that check their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from wardround.errors import StudyError
from wardround.privacy.acceptance import Acceptance, Accepted
from wardround.privacy.differential_privacy import DifferentiallyPrivate, DifferentialPrivacy
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.privacy.robust import Robust, RobustAggregation
from wardround.secure_aggregation.mechanisms import Mechanism
from wardround.settings import as_text, did_you_mean
from wardround.studies.sections import parsed
from wardround.tasks.task_table import TASKS
from wardround.text.document import Level
from wardround.text.phi_tag_sets import PHI_TAG_SETS
from wardround.text.relation_sets import RelationSet, RelationType

__all__ = [
    "Ends",
    "EvaluationSection",
    "FederationSection",
    "ModelSection",
    "PrivacySection",
    "PublicSection",
    "SiteSection",
    "StudySection",
    "TaskSection",
    "privacy_from",
    "public_from",
    "task_from",
]

Ends = tuple[tuple[str, str], ...]  # pairs of entity types that a relation connects; empty means any
_STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")


@dataclass(frozen=True)
class StudySection:
    """The section [study]: the study's name, seed and description."""

    name: str
    seed: int = 0
    description: str = ""

    def __post_init__(self) -> None:
        if not _STUDY_NAME.fullmatch(self.name):
            raise StudyError("name must be up to 63 letters, digits, spaces and . _ -")


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
        if self.tag_set and not self.reports_leakage:
            raise StudyError("tag_set is for a task of kind deidentify; leave it out")
        if self.only_tags_words and self.relations:
            raise StudyError("relations are for a task of kind relations or joint")
        if not self.only_tags_words and not self.relations:
            raise StudyError(f"a task of kind {self.kind} needs its relations: name each type in [task.relations]")
        if self.negatives is not None and not self.negatives >= 0:
            raise StudyError(f"negatives is {self.negatives}; it must be zero or above")
        if not self.relation_weight > 0:
            raise StudyError(f"relation_weight is {self.relation_weight}; it must be above zero")
        if self.relations:
            self.relation_set  # noqa: B018 – raises an error for classes that cannot be distinguished

    @property
    def family(self) -> str:
        """Return the task whose models and examples it uses: `ner` for `deidentify`, otherwise itself."""
        return TASKS[self.kind].variant_of or self.kind

    @property
    def only_tags_words(self) -> bool:
        """Whether it tags words and does nothing else, so that each site may have its own types."""
        return TASKS[self.kind].only_tags_words

    @property
    def reports_leakage(self) -> bool:
        """Whether its scores say how much identifying text would stay readable."""
        return TASKS[self.kind].reports_leakage

    @property
    def examples(self) -> str:
        """Return what its training examples are called."""
        return TASKS[self.kind].examples

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
    labelled: bool = True  # whether its annotation is used for training, in addition to the teacher
    sha256: str = ""  # digest of its documents; not checked if empty

    def __post_init__(self) -> None:
        if self.built_in and (self.data or self.format):
            raise StudyError("names a built-in hospital and data; keep one of them")
        if self.data and not self.format:
            raise StudyError("names data; it needs a format as well")

    @property
    def exists(self) -> bool:
        """Whether the study has a public set."""
        return bool(self.built_in or self.data)


@dataclass(frozen=True)
class ModelSection:
    """The section [model]: which network; every further key is an option of that network."""

    preset: str = "fedner"
    encoder: str = ""  # instead of a preset: Hugging Face id, folder or minilm
    vectors: Path | None = None  # word vectors for a preset: GloVe text or npz
    shared: tuple[str, ...] | None = None  # layer groups; ["all"] for every one; unset for the network's default
    options: Mapping[str, Any] = field(default_factory=dict)
    bart: str = ""  # instead of a preset: a BART, by id or folder, which LightNER prompts to write mentions
    family: str | None = None  # a model family by name, for those of installed packages
    start: Path | None = None  # a saved model, or its run folder, from which the shared layers start
    start_up_to: str = ""  # the highest layer that is copied from it; empty means all that fit
    start_sha256: str = ""  # digest of the shared layers at the start; not checked if empty

    def __post_init__(self) -> None:
        if self.encoder and self.bart:
            raise StudyError("names an encoder and a bart; keep one of them")
        if self.start_up_to and not self.has_start:
            raise StudyError("start_up_to limits what is copied from a start; name the start as well")

    @property
    def has_start(self) -> bool:
        """Whether the shared layers start from another model; a hospital knows only its digest."""
        return self.start is not None or bool(self.start_sha256)


DEFAULT_SMALLEST_BATCH = 16  # sentences; see docs/threat-model.md for what smaller updates reveal


@dataclass(frozen=True)
class PrivacySection:
    """The section [privacy]: how updates are protected when they are aggregated."""

    mechanism: str = "plain"  # a name in `MECHANISMS`
    minimum_sites: int = 1  # answers that an exchange needs; with fewer the study stops
    smallest_batch: int = 0  # minimum number of sentences per update; 0 means 16, or all that a site has
    scheme: Literal["bfv", "ckks"] = "bfv"  # encryption of sealed updates; ckks, as in FedHE, is for comparison
    packing: Literal["standard", "compact"] = "standard"  # bfv: 22 bits per number, or 15 and two thirds of the size
    value_bounds: Mapping[str, float] = field(default_factory=dict)  # by layer group; missing ones are learned
    error_feedback: bool = False  # add the rounding error of an update to the site's next one
    largest_share: float = 0.5  # of one site in a mean of three or more, whatever its size
    differential_privacy: DifferentialPrivacy | None = None  # the section [privacy.differential_privacy]
    robust: RobustAggregation | None = None  # the section [privacy.robust]
    acceptance: Acceptance | None = None  # the section [privacy.acceptance]

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            near = did_you_mean(self.mechanism, MECHANISMS)
            raise StudyError(f"mechanism is {self.mechanism!r}{near}; it can be {', '.join(MECHANISMS)}")
        if self.smallest_batch < 0:
            raise StudyError(f"smallest_batch is {self.smallest_batch}; it must be above zero, or 0 for the default")
        if not 0 < self.largest_share <= 1:
            raise StudyError(
                f"largest_share is {self.largest_share}; it must be a share of a mean, above 0 and up to 1"
            )
        for group, bound in self.value_bounds.items():
            if not 0 < bound < float("inf"):
                raise StudyError(f"value_bounds of {group} is {bound}; it must be above zero")

    @property
    def fewest_sentences(self) -> int:
        """Return the minimum number of sentences per update, if a site has that many."""
        return self.smallest_batch or DEFAULT_SMALLEST_BATCH

    @property
    def protection(self) -> Mechanism:
        """Return the declaration of the mechanism: who can read what, and what it needs."""
        mechanism = MECHANISMS[self.mechanism]
        if self.robust is not None:
            mechanism = Robust(mechanism, self.robust)
        if self.acceptance is not None:
            mechanism = Accepted(mechanism, self.acceptance)
        settings = self.differential_privacy
        return mechanism if settings is None else DifferentiallyPrivate(mechanism, settings)

    @property
    def honest_sites(self) -> int:
        """Return how many sites carry the noise of a sum; 0 without differential privacy."""
        settings = self.differential_privacy
        masks = MECHANISMS[self.mechanism].masks
        return 0 if settings is None else settings.honest_among(self.minimum_sites, masks=masks)


@dataclass(frozen=True)
class EvaluationSection:
    """The section [evaluation]: when development notes are scored, and which model the study ends with."""

    every: int = 0  # rounds between scorings; 0 means twenty scorings in the study
    patience: int = 0  # scorings without a better mean F1 before the study ends early; 0 means never
    keep: Literal["", "best", "last"] = ""  # empty means the algorithm's default

    def __post_init__(self) -> None:
        for name in ("every", "patience"):
            if getattr(self, name) < 0:
                raise StudyError(f"{name} is {getattr(self, name)}; it must be zero or above")


@dataclass(frozen=True)
class FederationSection:
    """The section [federation]: deadlines and checkpoints."""

    deadline: float = 600.0  # seconds that a hospital has for an answer
    wait: float = 3600.0  # seconds the coordinator waits for enough hospitals before it gives up
    checkpoint_every: int = 50  # rounds between checkpoints on one machine; a networked study has one per round

    def __post_init__(self) -> None:
        for name in ("deadline", "wait", "checkpoint_every"):
            if not getattr(self, name) > 0:
                raise StudyError(f"{name} is {getattr(self, name)}; it must be above zero")


@dataclass(frozen=True)
class SiteSection:
    """A section [sites.NAME]; only a study on one machine says where the notes are."""

    data: Path | None = None
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)  # options of the format
    built_in: str = ""  # a synthetic hospital, instead of data and format
    names: Path | None = None  # a mapping file from the type names in its notes to those of the study
    types: tuple[str, ...] = ()  # what it annotates; empty means all types in its training notes
    scored: tuple[str, ...] = ()  # what its test notes are annotated with; empty means the same
    scheme: str = ""  # BIO, BIOES or IOB1; empty means the model's
    encoder: str = ""  # its own encoder, if sites share no layers; empty means the study's
    fraction: float = 1.0  # share of its training notes that it trains on, drawn by the study's seed
    skip_faulty: bool = False  # whether faulty parts of its notes are left out instead of stopping the study

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise StudyError(
                f"fraction is {self.fraction}; it must be a share of the training notes, above 0 and up to 1"
            )
        for setting, types in (("types", self.types), ("scored", self.scored)):
            if len(set(types)) < len(types):
                raise StudyError(f"{setting} names a type twice")
        if self.scored and not self.types:
            raise StudyError("scored needs types as well: what the training notes are annotated with")
        for kind in self.types if self.scored else ():
            if kind not in self.scored:
                raise StudyError(f"scored leaves out {kind!r}, which the site annotates; name it as well")

    @property
    def scored_types(self) -> tuple[str, ...]:
        """Return the types that its test notes are annotated with, if it names any."""
        return self.scored or self.types

    def for_hospitals(self) -> SiteSection:
        """Return a copy without the location and the type names of its notes."""
        return replace(self, data=None, format="", options={}, built_in="", names=None, skip_faulty=False)


_PARTS_OF_PRIVACY: Mapping[str, type] = {
    "differential_privacy": DifferentialPrivacy,
    "robust": RobustAggregation,
    "acceptance": Acceptance,
}


def privacy_from(table: Mapping[str, Any]) -> PrivacySection:
    """Parse the section [privacy]."""
    settings, found = dict(table), dict[str, Any]()
    for name, section in _PARTS_OF_PRIVACY.items():
        part = settings.pop(name, None)
        if part is None:
            continue
        if not isinstance(part, dict):
            raise StudyError(f"[privacy.{name}] must be a section")
        found[name] = parsed(section, part, f"privacy.{name}")
    return parsed(PrivacySection, settings, "privacy", more=found)


def task_from(table: Mapping[str, Any]) -> TaskSection:
    """Parse the section [task]."""
    settings = dict(table)
    relations = settings.pop("relations", {})
    if not isinstance(relations, dict):
        raise StudyError('[task.relations] must be a section with one line per type, as ADE = [["Drug", "Effect"]]')
    ends: dict[str, Ends] = {}
    for name, found in relations.items():
        pairs = found if isinstance(found, list) else [found]
        if not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(e, str) for e in pair) for pair in pairs
        ):
            raise StudyError(
                f'[task.relations] {name} must be a list of pairs of entity types, as [["Drug", "Effect"]]'
            )
        ends[name] = tuple((head, tail) for head, tail in pairs)
    return parsed(TaskSection, settings, "task", more={"relations": ends})


def public_from(table: Mapping[str, Any], folder: Path) -> PublicSection:
    """Parse the section [public]; its path is relative to `folder`."""
    settings = dict(table)
    options = settings.pop("options", {})
    if not isinstance(options, dict):
        raise StudyError("[public] options must be a table of the format's options")
    section = parsed(PublicSection, settings, "public")
    data = None if section.data is None else (folder / section.data).resolve()
    return replace(section, data=data, options={key: as_text(value) for key, value in options.items()})
