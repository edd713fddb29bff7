"""Open the notes of each site of a study before it runs: what cannot be read, is not annotated, or cannot be scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wardround.corpora.gold import gold_warnings
from wardround.corpora.skipped_faults import SkippedFaults
from wardround.errors import WardroundError
from wardround.privacy.differential_privacy import DifferentialPrivacy
from wardround.reports.tables import Row, Table
from wardround.studies.single_site import SiteData
from wardround.studies.study_file import Study
from wardround.studies.study_notes import annotated_at, load_notes
from wardround.text.segmentation import sentences_of

__all__ = ["DataCheck", "SiteFindings", "check_data", "site_findings"]

_MOST_BUILT_IN = 100
_FEW_PASSES = 3.0  # over the notes in the whole study


@dataclass(frozen=True)
class SiteFindings:
    """What was found in the notes of one site; the sentences name types and files, and never quote a note."""

    site: str
    error: str = ""  # why the study cannot run here
    missing: tuple[str, ...] = ()  # declared types without a mention in the training notes
    warnings: tuple[str, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)  # by part
    sentences: int = 0  # of the training notes


@dataclass(frozen=True)
class DataCheck:
    """The findings at all sites whose notes are on this machine, and what the rounds mean for them."""

    sites: tuple[SiteFindings, ...]
    warnings: tuple[str, ...]  # about the study as a whole
    passes: float | None  # over the training notes in the whole study; None if the algorithm does not say

    @property
    def can_run(self) -> bool:
        """Return whether every site can be read and has each of its types in its training notes."""
        return not any(site.error or site.missing for site in self.sites)

    @property
    def table(self) -> Table:
        """Return the sizes of the parts."""
        rows: tuple[Row, ...] = tuple(
            (site.site, *(site.notes.get(part, 0) for part in ("train", "dev", "test")), site.sentences)
            for site in self.sites
        )
        return Table("Notes", ("site", "train", "dev", "test", "training sentences"), rows)

    def sentences(self) -> Iterator[str]:
        """Yield what was found, each with the place."""
        for site in self.sites:
            if site.error:
                yield f"error: {site.error}"
            for text in site.missing:
                yield f"error: [sites.{site.site}] {text}"
            for text in site.warnings:
                yield f"warning: [sites.{site.site}] {text}"
        for text in self.warnings:
            yield f"warning: {text}"


def check_data(study: Study) -> DataCheck:
    """Read the notes of every site that are on this machine, one site at a time; errors are findings."""
    sites = tuple(site_findings(study, name) for name in _local_sites(study))
    passes, warnings = None, list(_slack(study))
    counts = [site.sentences for site in sites if site.sentences]
    if counts and len(counts) == len(study.sites) and study.task.only_tags_words:
        passes = study.algorithm.config.passes(counts, study.training.batch_size)
    noise, larger = study.privacy.differential_privacy, "[training] batch_size"
    steps = study.algorithm.kind.noisy_steps(study.algorithm.config)
    if noise is not None and steps is not None:
        larger = "[privacy.differential_privacy] sampling_rate"
        passes = study.algorithm.config.rounds * steps.per_round * noise.sampling_rate
        warnings += _many_units(noise, sites)
    if passes is not None and passes < _FEW_PASSES:
        warnings.append(
            f"[algorithm] rounds: {study.algorithm.config.rounds} rounds are about {passes:.1f} passes over the "
            f"training notes, which is few; raise rounds or {larger}"
        )
    return DataCheck(sites, tuple(warnings), passes)


def _many_units(settings: DifferentialPrivacy, sites: Sequence[SiteFindings]) -> Iterator[str]:
    """Yield a sentence if the sites on this machine alone have more units than δ allows."""
    units = sum(site.sentences if settings.unit == "sentence" else site.notes.get("train", 0) for site in sites)
    if settings.unit != "patient" and units * settings.delta > 1:
        yield (
            f"[privacy.differential_privacy] delta is {settings.delta:g}, and the sites here have {units:,} "
            f"{settings.unit}s; it must be at most one over the number of all sites, {1 / units:.2g}"
        )


def site_findings(study: Study, name: str) -> SiteFindings:
    """Read the notes of one site and return what was found."""
    section, faults = study.sites[name], SkippedFaults()
    try:
        notes = load_notes(
            name, section, seed=study.study.seed, types=study.types, tag_set=study.task.tag_set, faults=faults
        )
        types = annotated_at(study, name, notes).types
    except WardroundError as error:
        place = f"[sites.{name}]"
        return SiteFindings(name, str(error) if place in str(error) else f"{place} {error}")
    # In relation and joint tasks a site annotates the types of the study, whether or not its own notes have each.
    chosen = bool(section.types)
    training = list(gold_warnings({"training": notes.train}, types, types_are_chosen=chosen))
    missing = tuple(text for text in training if study.task.only_tags_words and "have no entity" in text)
    scored = section.scored or types
    others = gold_warnings({"development": notes.dev, "test": notes.test}, scored, types_are_chosen=chosen)
    warnings = [*faults.sentences(), *(text for text in training if text not in missing), *others]
    if not notes.test:
        warnings.append("there is no test part: its scores will be those of development notes, and marked as such")
    return SiteFindings(
        name, "", missing, tuple(warnings), _sizes(notes), sum(len(sentences_of(note)) for note in notes.train)
    )


def _local_sites(study: Study) -> Iterator[str]:
    """Yield the sites whose notes are here; of many built-in hospitals, which are known to be correct, none."""
    built_in = len(study.sites) <= _MOST_BUILT_IN
    for name, site in study.sites.items():
        if site.data is not None or (site.built_in and built_in):
            yield name


def _sizes(notes: SiteData) -> dict[str, int]:
    return {"train": len(notes.train), "dev": len(notes.dev), "test": len(notes.test)}


def _slack(study: Study) -> Iterator[str]:
    """Yield a warning if one absent site stops a protected study."""
    privacy, sites = study.privacy, len(study.sites)
    needed = max(privacy.minimum_sites, privacy.protection.minimum_sites)
    if privacy.protection.protects and sites <= needed:
        yield (
            f"[privacy] {privacy.mechanism} needs {needed} of the {sites} sites in every round: a study among "
            "hospitals stops whenever one of them is absent; add a site for slack"
        )
