"""Both ends of a study's aggregation: at the coordinator and at a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wardround.algorithms.algorithm import Payload
from wardround.errors import StudyError
from wardround.federation.aggregation import AggregationClient, AggregationServer
from wardround.federation.site_runtime import PublicSet
from wardround.federation.unit_privacy import NoisePlan
from wardround.privacy.differential_privacy import noise_plan
from wardround.privacy.robust import check_memory
from wardround.secure_aggregation.mechanisms import ClientSetup, ServerSetup
from wardround.settings import did_you_mean
from wardround.studies.assemble import common_task
from wardround.studies.party_keys import PartyKeys
from wardround.studies.study_file import Study, digest_of
from wardround.studies.study_notes import public_set
from wardround.tasks.task import Task

if TYPE_CHECKING:
    from wardround.secure_aggregation.mechanisms import AgreedMechanism

__all__ = ["check_robust", "client_of", "mechanism_of", "noise_of", "payload_of", "planned_noise", "server_of"]


def payload_of(study: Study, task: Task, public: PublicSet) -> Payload:
    """Return what a site sends in a round, with the bounds that the study file names."""
    payload = study.algorithm.kind.payload(study.algorithm.config, task, public)
    return replace(payload, bounds={**payload.bounds, **study.privacy.value_bounds})


def noise_of(study: Study, payload: Payload) -> NoisePlan | None:
    """Return the plan of the study's noise; None without differential privacy."""
    privacy, kind = study.privacy, study.algorithm.kind
    steps = kind.noisy_steps(study.algorithm.config)
    if privacy.differential_privacy is None or steps is None:
        return None
    privacy.protection.check_installed()
    return noise_plan(
        privacy.differential_privacy,
        rounds=study.algorithm.config.rounds,
        per_round=steps.per_round,
        shared=steps.shared,
        sites=len(study.sites),
        honest_sites=privacy.honest_sites,
        numbers=payload.gradient_size,
        largest_sum=_agreed(study, payload).codec.largest_integer,
    )


def planned_noise(study: Study) -> NoisePlan:
    """Return the plan of the study's noise; raise a StudyError if it has none."""
    task = common_task(study)
    found = noise_of(study, payload_of(study, task, public_set(study, task)))
    if found is None:
        raise StudyError("the study has no section [privacy.differential_privacy], so there is no noise to audit")
    return found


def mechanism_of(study: Study, payload: Payload) -> AgreedMechanism:
    """Return what both ends of the study's mechanism must agree on."""
    study.privacy.protection.check_installed()
    _check_value_bounds(study.privacy.value_bounds, payload.groups.values())
    _check_site_count(study)
    agreed, noise = _agreed(study, payload), noise_of(study, payload)
    if noise is None or not noise.shared:
        return agreed
    bounds = dict.fromkeys(payload.groups.values(), noise.unit * agreed.codec.largest_integer)
    return replace(agreed, clips=bounds, unit=noise.unit)


def _agreed(study: Study, payload: Payload) -> AgreedMechanism:
    """Return what both ends agree on, for updates of real numbers."""
    from wardround.secure_aggregation.mechanisms import AgreedMechanism

    privacy = study.privacy
    return AgreedMechanism(
        digest_of(study),
        privacy.protection,
        payload.shapes,
        payload.groups,
        tuple(study.sites),
        privacy.minimum_sites,
        privacy.scheme,
        privacy.packing,
        payload.bounds,
        mean_comes_back=study.algorithm.kind.central_model,
    )


def server_of(study: Study, payload: Payload, party_keys: PartyKeys | None = None) -> AggregationServer:
    """Return the coordinator's end of the study's mechanism."""
    check_robust(study, payload)
    keys = party_keys or PartyKeys()
    setup = ServerSetup(
        partial(mechanism_of, study, payload),
        partial(study.algorithm.kind.plain_codec, study.algorithm.config, payload),
        keys.parameters,
        keys.certifier,
        noise_of(study, payload),
    )
    return study.privacy.protection.server(setup)


def check_robust(study: Study, payload: Payload) -> None:
    """Raise a StudyError if a robust rule would need more memory at the coordinator than the study allows."""
    if study.privacy.robust is None:
        return
    asked = max(1, round(study.algorithm.config.participation * len(study.sites)))
    check_memory(study.privacy.robust, sites=asked, numbers=payload.gradient_size)


def client_of(
    study: Study,
    name: str,
    payload: Payload,
    *,
    folder: Path,
    party_keys: PartyKeys | None = None,
    durable: bool = False,
    budget: float | None = None,
) -> AggregationClient:
    """Return a site's end of the study's mechanism; `folder` holds its permanent record.

    `budget` is the site's own limit of ε. Among hospitals the noise comes from a secret of the site. On one machine,
    all of which belongs to one person, it depends on the study's seed, so that a study can be repeated.
    """
    keys = party_keys or PartyKeys()
    noise = noise_of(study, payload)
    clips = payload.bounds if noise is None else mechanism_of(study, payload).clips
    setup = ClientSetup(
        agree=partial(mechanism_of, study, payload),
        codec=partial(study.algorithm.kind.plain_codec, study.algorithm.config, payload),
        folder=folder,
        identity=partial(keys.identity, name),
        secrets=keys.secrets,
        certifier=keys.certifier,
        clips=clips,
        error_feedback=study.privacy.error_feedback,
        largest_share=study.privacy.largest_share,
        durable=durable,
        noise=noise,
        noise_secret=partial(_noise_secret, study, name, folder, durable=durable),
        budget=budget,
    )
    return study.privacy.protection.client(setup)


def _noise_secret(study: Study, name: str, folder: Path, *, durable: bool) -> bytes:
    from wardround.privacy.unit_noise import read_or_create_secret, rehearsal_secret

    return read_or_create_secret(folder) if durable else rehearsal_secret(study.study.seed, name)


def _check_site_count(study: Study) -> None:
    """Raise a StudyError if the noise of that many ciphertexts would make their sum unreadable."""
    if not study.privacy.protection.seals or study.privacy.scheme != "bfv":
        return
    from wardround.secure_aggregation.bfv import BfvParameters

    packing, sites = study.privacy.packing, len(study.sites)
    most = BfvParameters(packing).most_sites
    if sites > most:
        raise StudyError(f"[privacy] packing {packing} adds up to {most:,} sites, not {sites:,}")


def _check_value_bounds(bounds: Mapping[str, float], groups: Iterable[str]) -> None:
    known = tuple(dict.fromkeys(groups))
    for group in bounds:
        if group not in known:
            near = did_you_mean(group, known)
            raise StudyError(
                f"[privacy] value_bounds: no shared layer group is called {group!r}{near}; {', '.join(known)} are"
            )
