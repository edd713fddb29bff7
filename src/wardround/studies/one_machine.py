"""A study on one machine: every site in this process, or in worker processes of it."""

from __future__ import annotations

from pathlib import Path

import torch

from wardround.errors import StudyError
from wardround.federation.in_process import InProcessFederation
from wardround.federation.site_door import SiteDoor
from wardround.studies.run import Engine, StudyOutcome, StudyRun, Watcher
from wardround.studies.run_folder import RunFolder
from wardround.studies.sites import load_notes, open_door, open_site
from wardround.studies.study_file import Study

__all__ = ["check_notes", "open_here", "run_on_one_machine"]

SITES = "sites"


def run_on_one_machine(study: Study, folder: RunFolder, *, device: torch.device, watcher: Watcher) -> StudyOutcome:
    """Run the study to its end, or go on with it."""
    check_notes(study)

    def open_named(name: str) -> SiteDoor:
        return open_here(study, name, folder.path / SITES / name, device=device)

    federation = InProcessFederation(tuple(study.sites), open_named)
    engine = Engine(checkpoint_every=study.federation.checkpoint_every, sites_save=False)
    try:
        return StudyRun(study, federation, folder, engine=engine, watcher=watcher).run()
    finally:
        federation.close()


def open_here(study: Study, name: str, folder: Path, *, device: torch.device) -> SiteDoor:
    """A site whose notes the study file points at."""
    notes = load_notes(name, study.sites[name], seed=study.study.seed)
    site = open_site(study, name, notes, folder=folder, device=device)
    return open_door(study, site, folder, lasting=False)


def check_notes(study: Study) -> None:
    """Refuse a study with a site whose notes are nowhere, before any of them is read."""
    for name, section in study.sites.items():
        if not section.built_in and section.data is None:
            raise StudyError(f"[sites.{name}] says not where its notes are: it needs data and format, or built_in")
        if section.data is not None and not section.data.exists():
            raise StudyError(f"[sites.{name}] data: {section.data.name} does not exist")
