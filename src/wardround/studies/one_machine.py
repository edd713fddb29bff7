"""A study on one machine: every site in this process, or in worker processes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from wardround.errors import FederationError
from wardround.federation.engines.in_process import InProcessFederation, WorkerPoolFederation
from wardround.federation.request_handler import RequestHandler
from wardround.federation.worker_process import WorkerProcess
from wardround.studies.protection import InMemoryKeys, Protection
from wardround.studies.public_set import check_public
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.site_setup import check_place, open_here
from wardround.studies.starting import check_start
from wardround.studies.study_file import Study, digest_of, key_scheme, to_toml
from wardround.studies.study_run import Engine, StudyOutcome, StudyRun, Watcher
from wardround.studies.worker_spec import WorkerSpec, worker_command

__all__ = ["check_notes", "run_on_one_machine"]


def run_on_one_machine(
    study: Study,
    folder: RunFolder,
    *,
    device: torch.device,
    watcher: Watcher,
    workers: int = 0,
    ledgers: bool = False,
) -> StudyOutcome:
    """Run the study to its end, or go on with it; with `workers`, as many processes share its sites.

    Nothing leaves the machine; with `ledgers`, each site still writes the ledger it would write among hospitals.
    """
    check_notes(study)
    study.privacy.protection.check_installed()
    rehearsal = _rehearsal(study)
    protection = _protection(study, rehearsal)
    if workers:
        key = "" if rehearsal is None else rehearsal.path_for_workers()
        place, threads = str(folder.path.resolve()), torch.get_num_threads()
        spec = WorkerSpec(to_toml(study), place, str(device), threads, ledgers=ledgers, key=key)
        federation: InProcessFederation | WorkerPoolFederation = _pool(
            study, folder, spec, workers, descriptors=tuple if rehearsal is None else rehearsal.descriptors
        )
    else:
        federation = _alone(study, folder, device, ledgers, protection)
    engine = Engine(checkpoint_every=study.federation.checkpoint_every, sites_save=False)
    try:
        return StudyRun(
            study, federation, folder, engine=engine, watcher=watcher, protection=protection, device=device
        ).run()
    except FederationError as error:
        raise error from federation.fault  # which nobody else runs: its own words may be told here
    finally:
        federation.close()
        if rehearsal is not None:
            rehearsal.close()


def _rehearsal(study: Study) -> InMemoryKeys | None:
    """A sealing key, where the study needs one."""
    return InMemoryKeys.new(key_scheme(study)) if study.privacy.protection.seals else None


def _protection(study: Study, rehearsal: InMemoryKeys | None) -> Protection:
    """Of both ends, which on one machine are in one hand."""
    if rehearsal is None:
        return Protection()
    return Protection(secrets=rehearsal, parameters=partial(rehearsal.parameters, digest_of(study)))


def check_notes(study: Study) -> None:
    """Refuse a study with a site whose notes are nowhere, before any of them is read."""
    for name, section in study.sites.items():
        check_place(name, section, types=study.types)
    check_public(study)
    check_start(study)


def _alone(
    study: Study, folder: RunFolder, device: torch.device, ledgers: bool, protection: Protection
) -> InProcessFederation:
    lending = SharedModelPool(study, device)

    def open_named(name: str) -> RequestHandler:
        own = folder.site(name)
        return open_here(study, name, own, device=device, ledger=ledgers, protection=protection, lending=lending)

    return InProcessFederation(tuple(study.sites), open_named)


def _pool(
    study: Study, folder: RunFolder, spec: WorkerSpec, count: int, *, descriptors: Callable[[], Sequence[int]] = tuple
) -> WorkerPoolFederation:
    command = worker_command(spec.write(folder.path / "worker.json"))
    workers = [WorkerProcess(command, descriptors=descriptors) for _ in range(min(count, len(study.sites)))]
    return WorkerPoolFederation(tuple(study.sites), workers)
