"""Checks of a study file as a whole: settings that contradict each other are refused before any site is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wardround.algorithms.algorithm import SharedLayers
from wardround.corpora.type_names import nearest_type
from wardround.errors import StudyError
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.settings import did_you_mean
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.study_sections import ModelSection
from wardround.tasks.task_table import TASKS
from wardround.text.tag_schemes import SCHEMES

if TYPE_CHECKING:
    from wardround.studies.study_file import Study

__all__ = ["check_study"]


def check_study(study: Study) -> None:
    """Raise a StudyError if settings of different sections contradict each other."""
    _check_counts(study)
    _check_acceptance(study)
    _check_privacy(study)
    _check_noise(study)
    _check_robust(study)
    _check_public(study)
    _check_task(study)
    _check_scored(study)
    _check_start(study)
    for name, site in study.sites.items():
        if site.scheme and site.scheme not in SCHEMES:
            near = did_you_mean(site.scheme, SCHEMES)
            raise StudyError(f"[sites.{name}] scheme is {site.scheme!r}{near}; it can be {', '.join(SCHEMES)}")
        if site.built_in and (site.data or site.format):
            raise StudyError(f"[sites.{name}] names a built-in hospital and data; keep one of them")
        if site.data and not site.format:
            raise StudyError(f"[sites.{name}] names data; it needs a format as well")
    if study.algorithm.kind.shared_layers is not SharedLayers.CONFIGURED and study.model.shared is not None:
        raise StudyError(
            f"[model] shared cannot be set for {study.algorithm.name}, which decides what is shared; leave it out"
        )


def _check_task(study: Study) -> None:
    """Raise a StudyError for settings of a tagger in a study without one, which would ignore them."""
    kind, model = study.task.kind, study.model
    if study.task.family not in study.algorithm.kind.tasks:
        raise StudyError(
            f"[algorithm] {study.algorithm.name} learns {', '.join(study.algorithm.kind.tasks)}; [task] kind is {kind}"
        )
    if study.task.only_tags_words:
        _check_tag_set(study)
        return
    if model.preset != ModelSection.preset or model.vectors is not None or model.bart:
        setting = "bart" if model.bart else "vectors" if model.vectors is not None else "preset"
        raise StudyError(f"[model] {setting} is for taggers; a task of kind {kind} uses an encoder: leave it out")
    for name, site in study.sites.items():
        if not TASKS[kind].finds_entities and (site.types or site.scheme):
            setting = "types" if site.types else "scheme"
            raise StudyError(
                f"[sites.{name}] {setting}: a task of kind {kind} uses given entities and tags none; leave it out"
            )


def _check_start(study: Study) -> None:
    """Raise a StudyError if no layer of the start model would be used."""
    shares_nothing = study.algorithm.kind.shared_layers is SharedLayers.NONE or study.algorithm.sites_keep_models
    if study.model.has_start and shares_nothing:
        raise StudyError(
            f"[model] start is for the layers that sites share; {study.algorithm.name} shares none here: leave it out. "
            "`wardround transfer` starts one site's training from another model"
        )


def _check_tag_set(study: Study) -> None:
    """Raise a StudyError for types that are not in the study's tag set."""
    known = study.task.phi_types
    for name, site in study.sites.items():
        for kind in site.types if known else ():
            if kind not in known:
                near = nearest_type(kind, known)
                raise StudyError(
                    f"[sites.{name}] types: {kind!r} is not in the tag set {study.task.tag_set}{near}; "
                    f"there are {', '.join(known)}"
                )


def _check_scored(study: Study) -> None:
    """Raise a StudyError for scored types that no site annotates."""
    for name, site in study.sites.items():
        if site.scored and not study.task.only_tags_words:
            raise StudyError(f"[sites.{name}] scored is for a task of kind ner or deidentify; leave it out")
        for kind in site.scored:
            if kind not in study.types:
                near = nearest_type(kind, study.types)
                raise StudyError(
                    f"[sites.{name}] scored: no site annotates {kind!r}{near}; there are {', '.join(study.types)}"
                )


def _check_public(study: Study) -> None:
    kind, public = study.algorithm.kind, study.public
    if kind.needs_public_set and not public.exists:
        raise StudyError(
            f"[algorithm] {study.algorithm.name} needs notes that all sites may read: name them in [public]"
        )
    if not kind.needs_public_set and public.exists:
        raise StudyError(f"[public] is not used by {study.algorithm.name}; leave it out")
    own = [name for name, site in study.sites.items() if site.encoder]
    if own and not study.algorithm.sites_keep_models:
        able = [f"{name} with {a.own_models_setting}" for name, a in ALGORITHMS.items() if a.own_models_setting]
        raise StudyError(
            f"[sites.{own[0]}] encoder: sites with encoders of their own cannot share layers; use [algorithm] "
            f"{' or '.join(able)}"
        )


def _check_privacy(study: Study) -> None:
    privacy, kind = study.privacy, study.algorithm.kind
    if not privacy.protection.protects:
        return
    fewest = privacy.protection.minimum_sites
    if privacy.minimum_sites < fewest:
        raise StudyError(
            f"[privacy] minimum_sites is {privacy.minimum_sites}; "
            f"{privacy.mechanism} hides a site's update among {fewest} or more"
        )
    if kind.needs_single_updates:
        raise StudyError(
            f"[algorithm] {study.algorithm.name} needs more of each site's update than the sum of all; "
            f"it runs with [privacy] mechanism plain, not {privacy.mechanism}"
        )
    if setting := kind.plain_only(study.algorithm.config):
        raise StudyError(
            f"[algorithm] {setting} needs mechanism plain; under {privacy.mechanism} every number is packed the same"
        )
    bound = study.algorithm.value_bound
    for head, configured in privacy.value_bounds.items():
        if bound and configured != bound:
            raise StudyError(
                f"[privacy] value_bounds of {head} is {configured}; {study.algorithm.name} sends numbers up to "
                f"{bound}, which is their bound: leave it out"
            )
    refusal = privacy.protection.refusal(
        scheme=privacy.scheme,
        packing=privacy.packing,
        mean_comes_back=kind.central_model,
        algorithm=study.algorithm.name,
    )
    if refusal:
        raise StudyError(f"[privacy] {refusal}")


def _check_noise(study: Study) -> None:
    """Raise a StudyError for settings under which differential privacy would promise what does not hold."""
    privacy, kind, config = study.privacy, study.algorithm.kind, study.algorithm.config
    settings = privacy.differential_privacy
    if settings is None:
        return
    place = "[privacy.differential_privacy]"
    if kind.needs_single_updates:
        raise StudyError(
            f"{place} {study.algorithm.name} needs more of each site's update than the sum of all, and the noise of a "
            "single update is not enough; use fedner"
        )
    if kind.noisy_steps(config) is None:
        able = [name for name, other in ALGORITHMS.items() if other.noisy_steps(other.config) is not None]
        raise StudyError(
            f"{place} {study.algorithm.name} with these settings does not clip the gradient of each "
            f"{settings.unit}; {', '.join(able)} can with their default settings"
        )
    if privacy.error_feedback:
        raise StudyError(f"{place} error_feedback would add to an update what its noise does not cover; leave it out")
    if privacy.value_bounds:
        raise StudyError(f"{place} value_bounds follow from the clip and the noise; leave them out")
    if privacy.smallest_batch:
        raise StudyError(
            f"{place} smallest_batch belongs to batches of a fixed size; a sample of units has a random size: leave it "
            "out"
        )
    if study.training.clip:
        raise StudyError(
            f"[training] clip bounds the gradient of a whole batch; {place} clip bounds that of each {settings.unit}: "
            "set [training] clip to 0"
        )
    most = settings.honest_among(privacy.minimum_sites, masks=privacy.protection.masks)
    if settings.honest_sites > most:
        raise StudyError(
            f"{place} honest_sites is {settings.honest_sites}; a sum under {privacy.mechanism} with minimum_sites "
            f"{privacy.minimum_sites} has at most {most} whose noise no reader knows"
        )
    if study.task.relations:
        raise StudyError(f"{place} is for tasks that tag words; in this one the examples of a note are not independent")


def _check_acceptance(study: Study) -> None:
    """Raise a StudyError for settings under which votes of the sites would mean nothing."""
    privacy, kind = study.privacy, study.algorithm.kind
    if privacy.acceptance is None:
        return
    place = "[privacy.acceptance]"
    if not MECHANISMS[privacy.mechanism].protects:
        raise StudyError(
            f"{place} is for mechanisms that hide single updates; under {privacy.mechanism} the coordinator can "
            "compare them: use [privacy.robust]"
        )
    if privacy.differential_privacy is not None:
        raise StudyError(
            f"{place} votes on single steps; under [privacy.differential_privacy] the noise of a step can be harmful "
            "without any malicious site: keep one of them"
        )
    if not kind.comparable_updates:
        able = [name for name, other in ALGORITHMS.items() if other.comparable_updates]
        raise StudyError(
            f"{place} {study.algorithm.name} does not step layers that every site can score; {', '.join(able)} do"
        )
    if privacy.minimum_sites < privacy.protection.minimum_sites:
        raise StudyError(
            f"[privacy] minimum_sites is {privacy.minimum_sites}; {place} hides a site's vote among "
            f"{privacy.protection.minimum_sites} or more"
        )


def _check_robust(study: Study) -> None:
    """Raise a StudyError for settings under which a robust rule would withstand nothing."""
    privacy, kind = study.privacy, study.algorithm.kind
    settings = privacy.robust
    if settings is None:
        return
    place = "[privacy.robust]"
    if MECHANISMS[privacy.mechanism].protects:
        raise StudyError(
            f"{place} {settings.rule} compares single updates, and {privacy.mechanism} hides them; it runs with "
            "mechanism plain"
        )
    if privacy.differential_privacy is not None:
        raise StudyError(
            f"{place} {settings.rule} compares single updates; under [privacy.differential_privacy] their noise is "
            "larger than what a rule could notice: keep one of them"
        )
    if not kind.comparable_updates:
        able = [name for name, other in ALGORITHMS.items() if other.comparable_updates]
        raise StudyError(
            f"{place} {study.algorithm.name} does not send one update of the same layers from every site; "
            f"{', '.join(able)} do"
        )
    fewest = settings.fewest_sites
    if privacy.minimum_sites < fewest:
        raise StudyError(
            f"[privacy] minimum_sites is {privacy.minimum_sites}; {settings.rule} withstands {settings.malicious} "
            f"malicious among {fewest} or more"
        )
    if settings.selected > privacy.minimum_sites - settings.malicious:
        raise StudyError(
            f"{place} selected is {settings.selected}; of minimum_sites {privacy.minimum_sites}, all but "
            f"{settings.malicious} can be selected"
        )


def _check_counts(study: Study) -> None:
    least, sites = study.privacy.minimum_sites, len(study.sites)
    if not sites:
        raise StudyError("the study has no site; name each in a section [sites.NAME]")
    if not 1 <= least <= sites:
        raise StudyError(f"[privacy] minimum_sites is {least}; the study has {sites} sites")
    asked = max(1, round(study.algorithm.config.participation * sites))
    if asked < least:
        raise StudyError(
            f"[algorithm] participation asks {asked} sites per round; [privacy] minimum_sites requires {least}"
        )
