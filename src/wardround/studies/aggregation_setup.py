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
from wardround.secure_aggregation.mechanisms import ClientSetup, ServerSetup
from wardround.settings import did_you_mean
from wardround.studies.party_keys import PartyKeys
from wardround.studies.study_file import Study, digest_of
from wardround.tasks.task import Task

if TYPE_CHECKING:
    from wardround.secure_aggregation.mechanisms import AgreedMechanism

__all__ = ["client_of", "mechanism_of", "payload_of", "server_of"]


def payload_of(study: Study, task: Task, public: PublicSet) -> Payload:
    """Return what a site sends in a round, with the bounds that the study file names."""
    payload = study.algorithm.kind.payload(study.algorithm.config, task, public)
    return replace(payload, bounds={**payload.bounds, **study.privacy.value_bounds})


def mechanism_of(study: Study, payload: Payload) -> AgreedMechanism:
    """Return what both ends of the study's mechanism must agree on."""
    study.privacy.protection.check_installed()
    from wardround.secure_aggregation.mechanisms import AgreedMechanism

    privacy = study.privacy
    _check_value_bounds(privacy.value_bounds, payload.groups.values())
    _check_site_count(study)
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
    keys = party_keys or PartyKeys()
    setup = ServerSetup(
        partial(mechanism_of, study, payload),
        partial(study.algorithm.kind.plain_codec, study.algorithm.config, payload),
        keys.parameters,
        keys.certifier,
    )
    return study.privacy.protection.server(setup)


def client_of(
    study: Study,
    name: str,
    payload: Payload,
    *,
    folder: Path,
    party_keys: PartyKeys | None = None,
    durable: bool = False,
) -> AggregationClient:
    """Return a site's end of the study's mechanism; `folder` holds its permanent record."""
    keys = party_keys or PartyKeys()
    setup = ClientSetup(
        agree=partial(mechanism_of, study, payload),
        codec=partial(study.algorithm.kind.plain_codec, study.algorithm.config, payload),
        folder=folder,
        identity=partial(keys.identity, name),
        secrets=keys.secrets,
        certifier=keys.certifier,
        clips=payload.bounds,
        error_feedback=study.privacy.error_feedback,
        largest_share=study.privacy.largest_share,
        durable=durable,
    )
    return study.privacy.protection.client(setup)


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
