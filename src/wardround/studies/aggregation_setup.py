"""What sites of a study give, and the second door it goes through: at the coordinator and at a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wardround.algorithms.feded import FedEdConfig, prediction_shapes
from wardround.algorithms.tagsets import REACH, TARGETS
from wardround.errors import StudyError
from wardround.federation.aggregation import AggregationClient, AggregationServer
from wardround.federation.site_runtime import PublicSet
from wardround.models.tagging_model import TaggingModel
from wardround.secure_aggregation.mechanisms import ClientSetup, ServerSetup
from wardround.secure_aggregation.plain import PlainCodec, PlainUpdates
from wardround.secure_aggregation.predictions import PlainPredictions
from wardround.settings import did_you_mean
from wardround.studies.protection import Protection
from wardround.studies.study_file import Study, digest_of
from wardround.tasks.task import Task

if TYPE_CHECKING:
    from wardround.secure_aggregation.agreed_mechanism import AgreedMechanism

__all__ = ["PayloadSpec", "client_of", "mechanism_of", "payload_spec_of", "plain_codec", "server_of"]


@dataclass(frozen=True)
class PayloadSpec:
    """What a site gives in a round: the shapes of its arrays, the group of each, and clips by group."""

    shapes: Mapping[str, tuple[int, ...]]
    groups: Mapping[str, str]
    clips: Mapping[str, float]


def payload_spec_of(study: Study, task: Task, public: PublicSet) -> PayloadSpec:
    """Updates of the shared half, a gradient beside it where sentences are compared, or predictions."""
    if study.algorithm.kind.central:
        heads = prediction_shapes(task, public.examples)
        reach = study.algorithm.config.value_bound  # where it is known, there is nothing to learn of a clip
        known = dict.fromkeys(heads, reach) if reach else {}
        return PayloadSpec(heads, {head: head for head in heads}, {**known, **study.privacy.clip})
    shared = task.model.shared_parameters()
    groups = {name: task.model.group_of(name) for name in shared}
    shapes = {name: tuple(parameter.shape) for name, parameter in shared.items()}
    if not study.algorithm.config.needs_gradient_probe:
        return PayloadSpec(shapes, groups, study.privacy.clip)
    assert isinstance(task.model, TaggingModel), "only sentences are compared"
    return PayloadSpec(
        {TARGETS: task.model.probe_shape, **shapes},
        {TARGETS: TARGETS, **groups},
        {TARGETS: REACH, **study.privacy.clip},
    )


def mechanism_of(study: Study, form: PayloadSpec) -> AgreedMechanism:
    """Return what both ends of the study's mechanism must agree on."""
    study.privacy.protection.check_installed()
    from wardround.secure_aggregation.agreed_mechanism import AgreedMechanism

    privacy = study.privacy
    _check_clips(privacy.clip, form.groups.values())
    _check_many(study)
    return AgreedMechanism(
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


def plain_codec(study: Study, form: PayloadSpec) -> PlainCodec:
    """Return how readable updates are encoded: as arrays, or as predictions at their precision."""
    config = study.algorithm.config
    if not isinstance(config, FedEdConfig):
        return PlainUpdates()
    return PlainPredictions(
        form.shapes,
        precision=config.precision,
        top_k=config.top_k,
        normalised=config.exchange == "probabilities",
    )


def server_of(study: Study, form: PayloadSpec, protection: Protection | None = None) -> AggregationServer:
    """Return the coordinator's end of the study's mechanism."""
    means = protection or Protection()
    setup = ServerSetup(
        partial(mechanism_of, study, form), partial(plain_codec, study, form), means.parameters, means.certifier
    )
    return study.privacy.protection.server(setup)


def client_of(
    study: Study,
    name: str,
    form: PayloadSpec,
    *,
    folder: Path,
    protection: Protection | None = None,
    lasting: bool = False,
) -> AggregationClient:
    """Return a site's end of the study's mechanism; `folder` holds its lasting record."""
    means = protection or Protection()
    setup = ClientSetup(
        agree=partial(mechanism_of, study, form),
        codec=partial(plain_codec, study, form),
        folder=folder,
        identity=partial(means.identity, name),
        secrets=means.secrets,
        certifier=means.certifier,
        clips=form.clips,
        error_feedback=study.privacy.error_feedback,
        largest_share=study.privacy.largest_share,
        lasting=lasting,
    )
    return study.privacy.protection.client(setup)


def _check_many(study: Study) -> None:
    """Refuse more sites than whose noise a sum of ciphertexts bears."""
    if not study.privacy.protection.seals or study.privacy.scheme != "bfv":
        return
    from wardround.secure_aggregation.bfv import BfvParameters

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
