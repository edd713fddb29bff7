"""A study on one machine: every site in this process, or in worker processes of it."""

from __future__ import annotations

import torch

from wardround.errors import StudyError
from wardround.federation.in_process import InProcessFederation, WorkerPoolFederation
from wardround.federation.worker_process import WorkerProcess
from wardround.studies.run import Engine, StudyOutcome, StudyRun, Watcher
from wardround.studies.run_folder import RunFolder
from wardround.studies.sites import open_here
from wardround.studies.study_file import Study, to_toml
from wardround.studies.worker_spec import WorkerSpec, worker_command

__all__ = ["check_notes", "run_on_one_machine"]


def run_on_one_machine(
    study: Study, folder: RunFolder, *, device: torch.device, watcher: Watcher, workers: int = 0
) -> StudyOutcome:
    """Run the study to its end, or go on with it; with `workers`, as many processes share its sites."""
    check_notes(study)
    federation = _pool(study, folder, device, workers) if workers else _alone(study, folder, device)
    engine = Engine(checkpoint_every=study.federation.checkpoint_every, sites_save=False)
    try:
        return StudyRun(study, federation, folder, engine=engine, watcher=watcher).run()
    finally:
        federation.close()


def check_notes(study: Study) -> None:
    """Refuse a study with a site whose notes are nowhere, before any of them is read."""
    for name, section in study.sites.items():
        if not section.built_in and section.data is None:
            raise StudyError(f"[sites.{name}] says not where its notes are: it needs data and format, or built_in")
        if section.data is not None and not section.data.exists():
            raise StudyError(f"[sites.{name}] data: {section.data.name} does not exist")


def _alone(study: Study, folder: RunFolder, device: torch.device) -> InProcessFederation:
    return InProcessFederation(
        tuple(study.sites), lambda name: open_here(study, name, folder.site(name), device=device)
    )


def _pool(study: Study, folder: RunFolder, device: torch.device, count: int) -> WorkerPoolFederation:
    spec = WorkerSpec(to_toml(study), str(folder.path.resolve()), str(device), torch.get_num_threads())
    command = worker_command(spec.write(folder.path / "worker.json"))
    return WorkerPoolFederation(
        tuple(study.sites), [WorkerProcess(command) for _ in range(min(count, len(study.sites)))]
    )
