"""A study on one machine, with one of the engines for sites of this machine.

A further engine is one module in `federation/engines` and one line in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from wardround.errors import FederationError, UsageError, WardroundError
from wardround.federation.engines.in_process import InProcessFederation, WorkerPoolFederation
from wardround.federation.federation import Federation, SiteId
from wardround.federation.worker_process import RequestHandler, WorkerProcess
from wardround.studies.assemble import check_start
from wardround.studies.party_keys import InMemoryKeys, PartyKeys
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import Study, digest_of, key_scheme, to_toml
from wardround.studies.study_notes import check_place, check_public
from wardround.studies.study_run import EngineSettings, StudyOutcome, StudyRun, Watcher
from wardround.studies.worker_spec import WorkerSpec, worker_command

__all__ = ["ENGINES", "LocalEngine", "LocalSites", "check_notes", "run_on_one_machine"]


@dataclass(frozen=True)
class LocalSites:
    """The sites of a study on this machine, from which an engine is built."""

    names: tuple[SiteId, ...]
    open_site: Callable[[SiteId], RequestHandler]  # opens a site in this process
    start_workers: Callable[[], Sequence[WorkerProcess]]  # starts processes that share the sites


class LocalEngine(Federation, Protocol):
    """A federation whose sites are all on this machine."""

    fault: WardroundError | None  # the first error of a site since it was last asked

    def close(self) -> None:
        """Close all sites."""


ENGINES: Mapping[str, Callable[[LocalSites], LocalEngine]] = {
    "in-process": lambda sites: InProcessFederation(sites.names, sites.open_site),
    "workers": lambda sites: WorkerPoolFederation(sites.names, sites.start_workers()),
}


def run_on_one_machine(
    study: Study,
    folder: RunFolder,
    *,
    device: torch.device,
    watcher: Watcher,
    workers: int = 0,
    ledgers: bool = False,
    engine: str = "",
) -> StudyOutcome:
    """Run the study to its end, or resume it; with `workers`, that many processes share its sites.

    Nothing leaves the machine; with `ledgers`, each site still writes the ledger it would write among hospitals.
    `engine` is a name in `ENGINES`; by default the number of workers decides.
    """
    check_notes(study)
    study.privacy.protection.check_installed()
    engine = engine or ("workers" if workers else "in-process")
    if engine not in ENGINES:
        raise UsageError(f"{engine!r} is not an engine; there are {', '.join(ENGINES)}")
    keys = InMemoryKeys.new(key_scheme(study)) if study.privacy.protection.seals else None
    # The keys of both ends, which are on one machine here.
    party_keys = PartyKeys()
    if keys is not None:
        party_keys = PartyKeys(secrets=keys, parameters=partial(keys.parameters, digest_of(study)))
    pool = SharedModelPool(study, device)

    def open_site(name: str) -> RequestHandler:
        own = folder.site(name)
        return open_here(study, name, own, device=device, ledger=ledgers, party_keys=party_keys, model_pool=pool)

    def start_workers() -> list[WorkerProcess]:
        key = "" if keys is None else keys.path_for_workers()
        place, threads = str(folder.path.resolve()), torch.get_num_threads()
        spec = WorkerSpec(to_toml(study), place, str(device), threads, ledgers=ledgers, key=key)
        descriptors = tuple if keys is None else keys.descriptors
        return _start_workers(study, folder, spec, workers, descriptors=descriptors)

    federation = ENGINES[engine](LocalSites(tuple(study.sites), open_site, start_workers))
    settings = EngineSettings(checkpoint_every=study.federation.checkpoint_every, sites_save=False)
    try:
        return StudyRun(
            study, federation, folder, engine=settings, watcher=watcher, party_keys=party_keys, device=device
        ).run()
    except FederationError as error:
        raise error from federation.fault  # all sites are on this machine, so their messages may be shown here
    finally:
        federation.close()
        if keys is not None:
            keys.close()


def check_notes(study: Study) -> None:
    """Raise a StudyError if notes of some site do not exist, before any are read."""
    for name, section in study.sites.items():
        check_place(name, section, types=study.types)
    check_public(study)
    check_start(study)


def _start_workers(
    study: Study, folder: RunFolder, spec: WorkerSpec, count: int, *, descriptors: Callable[[], Sequence[int]] = tuple
) -> list[WorkerProcess]:
    command = worker_command(spec.write(folder.path / "worker.json"))
    return [WorkerProcess(command, descriptors=descriptors) for _ in range(min(count, len(study.sites)))]
