"""The study file: a TOML file with one frozen dataclass per section; unknown settings are refused.

[study]       name, seed, description
[task]        what is learned: entities, relations, or both
[public]      a small set that all parties may read, if the algorithm needs one
[model]       which network, which of its layers are shared, and its options
[algorithm]   which algorithm, for how many rounds, and its settings
[training]    batch size, learning rate and other settings of a training step
[privacy]     how updates are protected, and the minimum number of sites per round
[evaluation]  how often the development sets are scored
[federation]  deadlines and checkpoints
[sites.NAME]  each site: what it annotates and, in a study on one machine, where its notes are
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.algorithms.algorithm import Algorithm
from wardround.errors import StudyError
from wardround.federation.coordinator import RoundsConfig
from wardround.parsing import MalformedDataError, parse_toml, read_limited
from wardround.settings import as_text, did_you_mean
from wardround.studies.catalogue import ALGORITHMS, DEFAULT_ALGORITHM
from wardround.studies.sections import parsed, parsed_over, table_in, with_present_names
from wardround.studies.study_checks import check_study
from wardround.studies.study_sections import (
    EvaluationSection,
    FederationSection,
    ModelSection,
    PrivacySection,
    PublicSection,
    SiteSection,
    StudySection,
    TaskSection,
    privacy_from,
    public_from,
    task_from,
)
from wardround.training.training_config import RoundTrainingConfig

__all__ = [
    "LARGEST_STUDY",
    "AlgorithmSection",
    "EvaluationSection",
    "FederationSection",
    "ModelSection",
    "PrivacySection",
    "PublicSection",
    "SiteSection",
    "Study",
    "StudySection",
    "TaskSection",
    "digest_of",
    "key_scheme",
    "parse_study",
    "read_study",
    "study_for_kits",
    "study_from",
    "to_toml",
]

# Defaults of [training] under differential privacy: gradients of units are clipped, and the noisy sum is not.
NOISY_TRAINING: Mapping[str, Any] = {"clip": 0.0, "schedule": "constant"}
LARGEST_STUDY = 16_000_000  # bytes of a study file, or a sweep
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_RESERVED = {"coordinator", "keys", "server", "client", "admin"}  # names of other parties


@dataclass(frozen=True)
class AlgorithmSection:
    """The section [algorithm]: the name of the algorithm and its settings."""

    name: str = DEFAULT_ALGORITHM
    config: RoundsConfig = field(default_factory=lambda: ALGORITHMS[DEFAULT_ALGORITHM].config)

    @property
    def kind(self) -> Algorithm[Any]:
        """Return the declaration of the algorithm."""
        return ALGORITHMS[self.name]

    @property
    def sites_keep_models(self) -> bool:
        """Whether every site keeps a model of its own, with these settings."""
        return self.kind.sites_keep_models(self.config)

    @property
    def value_bound(self) -> float:
        """Return the largest absolute value that sites send, with these settings; 0 if it is not known."""
        return self.kind.value_bound(self.config)


@dataclass(frozen=True)
class Study:
    """One study: a training among sites."""

    study: StudySection
    sites: Mapping[str, SiteSection]
    task: TaskSection = field(default_factory=TaskSection)
    model: ModelSection = field(default_factory=ModelSection)
    algorithm: AlgorithmSection = field(default_factory=AlgorithmSection)
    training: RoundTrainingConfig = field(default_factory=RoundTrainingConfig)
    public: PublicSection = field(default_factory=PublicSection)
    privacy: PrivacySection = field(default_factory=PrivacySection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    federation: FederationSection = field(default_factory=FederationSection)
    # Whether the study was read from a file with names of version 0.1. It is then written with these names, so that its
    # digest stays the same: kits, keys and run folders identify the study with it.
    old_names: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        check_study(self)

    @property
    def types(self) -> tuple[str, ...]:
        """Return every type that some site annotates, in the order of the file."""
        named = tuple(dict.fromkeys(kind for site in self.sites.values() for kind in site.types))
        return named or self.task.entity_types

    @property
    def shared_at_sites(self) -> bool:
        """Whether only the sites have the shared half, because only they can open the sum of the updates."""
        return self.privacy.protection.seals and not self.algorithm.kind.central_model

    @property
    def sends_start(self) -> bool:
        """Whether sites receive the start of the shared half before round 1; otherwise it comes with the round."""
        return self.shared_at_sites and bool(self.model.start_sha256)

    @property
    def keeps_last(self) -> bool:
        """Whether the study ends with the model of its last round instead of its best one."""
        return (self.evaluation.keep or self.algorithm.kind.keep) == "last"

    def for_hospitals(self) -> Study:
        """Return a copy without the locations of notes and vectors, which may be given to others."""
        cleared = {name: site.for_hospitals() for name, site in self.sites.items()}
        vectors = None if self.model.vectors is None else Path(self.model.vectors.name)
        public = self.public if self.public.data is None else replace(self.public, data=Path(self.public.data.name))
        return replace(self, sites=cleared, public=public, model=replace(self.model, vectors=vectors, start=None))


_SECTIONS = tuple(section.name for section in fields(Study) if section.name != "old_names")


def read_study(path: Path, *, generated: bool = False) -> Study:
    """Read a study file; paths in it are relative to its folder, and `generated` is as for `parse_study`."""
    try:
        text = str(read_limited(path, LARGEST_STUDY), "utf-8")
    except MalformedDataError as error:
        raise StudyError(f"{path.name} {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path.name} cannot be read as text: {type(error).__name__}") from None
    return parse_study(text, folder=path.parent, generated=generated)


def study_for_kits(study: Study) -> bytes:
    """Return the study file that every participant of a networked study receives: all settings, no paths."""
    if study.algorithm.kind.one_machine_only:
        raise StudyError(
            f"[algorithm] {study.algorithm.name} needs all notes in one place; hospitals use another algorithm"
        )
    if study.model.start is not None and not study.model.start_sha256:
        raise StudyError(
            "[model] start is written to kits as a digest of its layers; use `wardround provision`, which adds it"
        )
    named = {"[model] encoder": study.model.encoder, "[model] contextual": study.model.options.get("contextual")}
    named["[model] bart"] = study.model.bart
    named |= {f"[sites.{name}] encoder": site.encoder for name, site in study.sites.items()}
    for place, encoder in named.items():
        if isinstance(encoder, str) and (Path(encoder).is_absolute() or ("/" in encoder and Path(encoder).is_dir())):
            raise StudyError(
                f"{place}: {Path(encoder).name!r} is a folder on this machine; name a Hugging Face id, which "
                "every hospital can load"
            )
    return to_toml(study.for_hospitals()).encode()


def parse_study(text: str, *, folder: Path = Path(), generated: bool = False) -> Study:
    """Parse a study file; paths in it are relative to `folder`.

    A `generated` file, such as that of a run folder or a kit, was written by Wardround with every default. Its names of
    version 0.1 cause no warning: nobody chose them, and nobody should change the file.
    """
    try:
        table = parse_toml(text, finite=False)
    except MalformedDataError as error:
        raise StudyError(f"the study file {error}") from None
    return study_from(table, folder=folder, generated=generated)


def study_from(table: Mapping[str, Any], *, folder: Path = Path(), generated: bool = False) -> Study:
    """Return the study in a table of tables, as parsed from TOML; `generated` is as for `parse_study`."""
    known = set(_SECTIONS)
    for name in table:
        if name not in known:
            raise StudyError(
                f"[{name}] is not a section{did_you_mean(name, known)}; there are {', '.join(sorted(known))}"
            )
    old_names = _old_names(table)
    present = {
        name: with_present_names(table_in(table, name), renamed, name, warn=not generated)
        for name, renamed in old_names.items()
    }
    table = {**table, **present}
    sites, task = table_in(table, "sites"), task_from(table_in(table, "task"))
    algorithm, training = _algorithm(table_in(table, "algorithm"))
    privacy = privacy_from(table_in(table, "privacy"))
    if privacy.differential_privacy is not None:
        training = replace(training, **NOISY_TRAINING)
    study = Study(
        study=parsed(StudySection, table_in(table, "study"), "study"),
        task=task,
        public=public_from(table_in(table, "public"), folder),
        model=_model(table_in(table, "model"), folder),
        algorithm=algorithm,
        training=parsed_over(training, table_in(table, "training"), "training"),
        privacy=privacy,
        evaluation=parsed(EvaluationSection, table_in(table, "evaluation"), "evaluation"),
        federation=parsed(FederationSection, table_in(table, "federation"), "federation"),
        sites={name: _site(name, table_in(sites, name), folder, task.phi_types) for name in sites},
        old_names=bool(old_names),
    )
    if "public" in table and not study.public.exists:
        raise StudyError("[public] names no notes: it needs data and format, or built_in; or leave it out")
    return study


def _old_names(table: Mapping[str, Any]) -> dict[str, Mapping[str, str]]:
    """Return, by section, the names of version 0.1 that a study file uses, each with its present name."""
    found = dict[str, Mapping[str, str]]()
    for section, renamed in _renamed(table_in(table, "algorithm").get("name", DEFAULT_ALGORITHM)).items():
        used = {old: new for old, new in renamed.items() if old in table_in(table, section)}
        if used:
            found[section] = used
    return found


def _renamed(algorithm: Any) -> dict[str, Mapping[str, str]]:
    """Return, by section, the settings that had another name in version 0.1."""
    known = isinstance(algorithm, str) and algorithm in ALGORITHMS
    return {
        "privacy": {"clip": "value_bounds"},
        "algorithm": ALGORITHMS[algorithm].old_settings if known else {},
    }


def digest_of(study: Study) -> str:
    """Return the digest that identifies the study; parties compare it, and it does not depend on paths."""
    return sha256(to_toml(study.for_hospitals()).encode()).hexdigest()


def key_scheme(study: Study) -> str:
    """Return the encryption scheme that the study's sealing key is made for."""
    privacy = study.privacy
    return "ckks" if privacy.scheme == "ckks" else f"bfv-{privacy.packing}"


def to_toml(study: Study) -> str:
    """Return the study file with every default written out; parsing it returns an equal study."""
    import tomli_w

    sections: dict[str, Any] = {section: asdict(getattr(study, section)) for section in _SECTIONS if section != "sites"}
    if study.public == PublicSection():
        del sections["public"]
    sections["algorithm"] = {"name": study.algorithm.name, **asdict(study.algorithm.config)}
    sections["model"] |= sections["model"].pop("options")
    sections["sites"] = {
        name: {key: value for key, value in asdict(site).items() if value} for name, site in study.sites.items()
    }
    for section, renamed in _renamed(study.algorithm.name).items() if study.old_names else ():
        old = {new: name for name, new in renamed.items()}
        sections[section] = {old.get(name, name): value for name, value in sections[section].items()}
    return tomli_w.dumps(_plain(sections))


def _plain(value: Any) -> Any:
    """Return a value as TOML can hold it: None is left out, paths are text."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items() if part is not None}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _algorithm(table: dict[str, Any]) -> tuple[AlgorithmSection, RoundTrainingConfig]:
    settings = dict(table)
    name = settings.pop("name", DEFAULT_ALGORITHM)
    if not isinstance(name, str) or name not in ALGORITHMS:
        near = did_you_mean(str(name), ALGORITHMS)
        raise StudyError(
            f"[algorithm] name: {name!r} is not an algorithm{near}; there are {', '.join(ALGORITHMS)}, and those of "
            "packages installed here"
        )
    kind = ALGORITHMS[name]
    return AlgorithmSection(name, parsed_over(kind.config, settings, "algorithm")), kind.training


def _model(table: dict[str, Any], folder: Path) -> ModelSection:
    own = {section.name for section in fields(ModelSection)} - {"options"}
    options = {name: value for name, value in table.items() if name not in own}
    section = parsed(ModelSection, {name: value for name, value in table.items() if name in own}, "model")
    vectors, start = (None if path is None else (folder / path).resolve() for path in (section.vectors, section.start))
    return replace(section, options=options, vectors=vectors, start=start)


def _site(name: str, table: dict[str, Any], folder: Path, types: tuple[str, ...]) -> SiteSection:
    """Parse one site; if it names no types, it annotates `types`."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        others = ", ".join(sorted(_RESERVED))
        raise StudyError(
            f"[sites.{name}]: a site's name is up to 63 lower-case letters, digits and dashes; not {others}"
        )
    settings = dict(table)
    options = settings.pop("options", {})
    if not isinstance(options, dict):
        raise StudyError(f"[sites.{name}] options must be a table of the format's options")
    site = parsed(SiteSection, settings, f"sites.{name}")
    data, names = (None if path is None else (folder / path).resolve() for path in (site.data, site.names))
    given = {key: as_text(value) for key, value in options.items()}
    return replace(site, data=data, names=names, options=given, types=site.types or types)
