"""What sites of a study give, and the second door it goes through: at the coordinator and at a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wardround.algorithms.feded import FedEdConfig, prediction_shapes
from wardround.algorithms.site import PublicSet
from wardround.algorithms.tagsets import REACH, TARGETS
from wardround.errors import StudyError
from wardround.models.tagging_model import TaggingModel
from wardround.privacy.aggregator import Aggregator, CohortAggregator, Giver, PlainAggregator
from wardround.privacy.predictions import PlainPredictions
from wardround.settings import did_you_mean
from wardround.studies.protection import Protection, check_installed
from wardround.studies.study_file import Study, digest_of
from wardround.tasks.task import Task

if TYPE_CHECKING:
    from wardround.privacy.mechanism import Mechanism

__all__ = ["GivenForm", "aggregator_of", "form_of", "giver_of", "mechanism_of", "plain_aggregator"]


@dataclass(frozen=True)
class GivenForm:
    """What a site gives in a round: the shapes of its arrays, the group of each, and clips by group."""

    shapes: Mapping[str, tuple[int, ...]]
    groups: Mapping[str, str]
    clips: Mapping[str, float]


def form_of(study: Study, task: Task, public: PublicSet) -> GivenForm:
    """Updates of the shared half, a gradient beside it where sentences are compared, or predictions."""
    if study.algorithm.kind.central:
        heads = prediction_shapes(task, public.examples)
        reach = study.algorithm.config.reach  # where it is known, there is nothing to learn of a clip
        known = dict.fromkeys(heads, reach) if reach else {}
        return GivenForm(heads, {head: head for head in heads}, {**known, **study.privacy.clip})
    shared = task.model.shared_parameters()
    groups = {name: task.model.group_of(name) for name in shared}
    shapes = {name: tuple(parameter.shape) for name, parameter in shared.items()}
    if not study.algorithm.config.compares:
        return GivenForm(shapes, groups, study.privacy.clip)
    assert isinstance(task.model, TaggingModel), "only sentences are compared"
    return GivenForm(
        {TARGETS: task.model.probe_shape, **shapes},
        {TARGETS: TARGETS, **groups},
        {TARGETS: REACH, **study.privacy.clip},
    )


def mechanism_of(study: Study, form: GivenForm) -> Mechanism:
    """How what sites give in the study is protected."""
    check_installed(study)
    from wardround.privacy.mechanism import Mechanism

    privacy = study.privacy
    _check_clips(privacy.clip, form.groups.values())
    _check_many(study)
    assert privacy.mechanism != "plain", "there is nothing to agree on"
    return Mechanism(
        digest_of(study),
        privacy.mechanism,
        form.shapes,
        form.groups,
        tuple(study.sites),
        privacy.minimum_sites,
        privacy.scheme,
        privacy.packing,
        form.clips,
        mean_comes_back=study.algorithm.kind.central,
    )


def plain_aggregator(study: Study, form: GivenForm) -> Aggregator:
    """The second door where nothing is protected: of updates, or of predictions at their precision."""
    config = study.algorithm.config
    if not isinstance(config, FedEdConfig):
        return PlainAggregator()
    return PlainPredictions(
        form.shapes,
        precision=config.precision,
        top_k=config.top_k,
        normalised=config.exchange == "probabilities",
    )


def aggregator_of(study: Study, form: GivenForm, protection: Protection | None = None) -> Aggregator | CohortAggregator:
    """The coordinator's side of the second door, as the study wants it."""
    if study.privacy.mechanism == "plain":
        return plain_aggregator(study, form)
    from wardround.privacy.protected_sum import ProtectedAggregator

    assert protection is not None, "what is protected needs its means"
    return ProtectedAggregator(
        mechanism_of(study, form),
        parameters=protection.parameters,
        certifier=protection.certifier,
    )


def giver_of(study: Study, name: str, form: GivenForm, protection: Protection) -> Giver:
    """A site's side of the second door."""
    from wardround.privacy.protected_giver import ProtectedGiver

    return ProtectedGiver(
        mechanism_of(study, form),
        protection.identity(name),
        secrets=protection.secrets,
        certifier=protection.certifier,
        feedback=study.privacy.error_feedback,
    )


def _check_many(study: Study) -> None:
    """Refuse more sites than whose noise a sum of ciphertexts bears."""
    if not study.privacy.is_sealed or study.privacy.scheme != "bfv":
        return
    from wardround.privacy.bfv import BfvParameters

    packing, sites = study.privacy.packing, len(study.sites)
    most = BfvParameters(packing).most_sites
    if sites > most:
        raise StudyError(f"[privacy] packing {packing} adds up to {most:,} sites, not {sites:,}")


def _check_clips(clips: Mapping[str, float], groups: Iterable[str]) -> None:
    known = tuple(dict.fromkeys(groups))
    for group in clips:
        if group not in known:
            near = did_you_mean(group, known)
            raise StudyError(f"[privacy] clip: no shared layer group is called {group!r}{near}; {', '.join(known)} are")
