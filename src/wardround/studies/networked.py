"""A networked study: plan its kits, run its coordinator, and record a site's own choices."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from rich.console import Console

from wardround.errors import FederationError, UsageError
from wardround.federation.engines.flare.coordinator_session import run_coordinator_session
from wardround.federation.engines.flare.flare_federation import FlareFederation
from wardround.provisioning.kit_plan import KitPlan
from wardround.provisioning.kits import Kit
from wardround.reports.progress import StudyProgress
from wardround.reports.score_tables import study_tables
from wardround.secure_aggregation.identities import open_signatures
from wardround.studies.assemble import check_start, with_start_digest
from wardround.studies.party_keys import PartyKeys
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_guard import run_lock
from wardround.studies.run_reading import write_own_report
from wardround.studies.run_tracking import tracked
from wardround.studies.single_site import pick_device
from wardround.studies.site_agent import SPEC, LocalPaths, site_folder
from wardround.studies.study_file import SiteSection, Study, parse_study, read_study, study_for_kits, to_toml
from wardround.studies.study_notes import with_digest
from wardround.studies.study_run import EngineSettings, StudyRun
from wardround.studies.worker_spec import PartySpec, WorkerSpec

__all__ = ["SiteChoice", "coordinator_study", "party_of", "plan_kits", "run_coordinator", "run_folder", "study_of"]

_PAUSE = 2.0  # seconds before a round is retried
_GRACE = 5.0  # seconds to wait for further sites once enough are present


def plan_kits(path: Path, *, host: str, port: int, days: int, keys: str = "") -> tuple[KitPlan, bytes]:
    """Return the plan of the kits for a study file, and the study file that all participants receive."""
    study = with_start_digest(with_digest(read_study(path)))
    return KitPlan(study.study.name, host, port, tuple(study.sites), days, keys), study_for_kits(study)


def study_of(kit: Kit, paths: LocalPaths | None = None) -> Study:
    """Return the study of a kit, with this party's paths of the files that the study names."""
    study, paths = parse_study(kit.study.decode(), generated=True), paths or LocalPaths()
    vectors = _local_path("word vectors", "--vectors", study.model.vectors, paths.vectors)
    public = _local_path("public set", "--public", study.public.data, paths.public)
    model = replace(study.model, vectors=vectors, start=None if paths.start is None else paths.start.resolve())
    return replace(study, model=model, public=replace(study.public, data=public))


def coordinator_study(kit: Kit, paths: LocalPaths) -> Study:
    """Return the study for its coordinator; only the coordinator has the model that the study starts from."""
    study = study_of(kit, paths)
    if study.model.start is None and study.model.start_sha256:
        raise UsageError("the study starts from a saved model; give its path with --start")
    if study.model.start is not None and not study.model.start_sha256:
        raise UsageError("the study does not start from a saved model; leave --start out")
    return study


def _local_path(what: str, option: str, named: Path | None, path: Path | None) -> Path | None:
    """Return the absolute path of a file that the study names; raise an error if it is another file or is missing."""
    if named is None and path is not None:
        raise UsageError(f"the study names no {what}; leave {option} out")
    if named is None:
        return None
    if path is None:
        raise UsageError(f"the study uses the {what} {named.name}; give the path with {option}")
    if path.name != named.name:
        raise UsageError(f"{option} names {path.name}; the study calls its {what} {named.name}")
    return path.resolve()


def run_folder(kit: Kit) -> RunFolder:
    """Return the folder in which the coordinator keeps checkpoints, events and results."""
    return RunFolder(kit.path / "run")


def run_coordinator(kit: Kit, paths: LocalPaths | None = None, *, trackers: tuple[str, ...] = ()) -> int:
    """Run the coordinator in this process until the study is over; return the exit code."""
    study = coordinator_study(kit, paths or LocalPaths())
    check_start(study)
    protected = study.privacy.protection.protects
    party_keys = PartyKeys.of_coordinator(study, party_of(kit)) if protected else None

    def run_study(federation: FlareFederation, terminal: TextIO) -> None:
        with tracked(study, run_folder(kit), trackers, say=partial(print, file=terminal, flush=True)):
            _run_study(study, federation, run_folder(kit), terminal, party_keys)

    with run_lock(kit.path):
        return run_coordinator_session(
            kit.party,
            run_study,
            signatures=open_signatures(key=kit.key, certificate=kit.certificate, root=kit.root),
            deadline=study.federation.deadline,
        )


def party_of(kit: Kit) -> PartySpec:
    """Return the key and certificate paths of a kit's owner, and the address of the key service."""
    return PartySpec(str(kit.path), str(kit.key), str(kit.certificate), str(kit.root), kit.plan.keys)


def _run_study(
    study: Study,
    federation: FlareFederation,
    folder: RunFolder,
    terminal: TextIO,
    party_keys: PartyKeys | None,
) -> None:
    console = Console(file=terminal)
    console.print(f"waiting for {study.privacy.minimum_sites} of {len(study.sites)} sites", highlight=False)
    folder.log("waiting", {"least": study.privacy.minimum_sites, "sites": len(study.sites)})
    present = federation.wait_for(study.privacy.minimum_sites, study.federation.wait)
    with suppress(FederationError):
        present = federation.wait_for(len(study.sites), _GRACE)
    folder.log("gathered", {"present": present})
    rounds = study.algorithm.config.rounds
    engine = EngineSettings(
        checkpoint_every=1, sites_save=True, retries=max(1, int(study.federation.wait / _PAUSE)), pause=_PAUSE
    )
    with StudyProgress(study.study.name, list(study.sites), rounds, console=console) as progress:
        run = StudyRun(
            study, federation, folder, engine=engine, watcher=progress, party_keys=party_keys, device=pick_device()
        )
        outcome = run.run()
    write_own_report(folder)
    for table in study_tables(outcome.sites):
        console.print(table.to_rich())
    console.print(f"report  {folder.report}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class SiteChoice:
    """What a site decides for itself; it never leaves the site."""

    notes: SiteSection
    device: str = "auto"
    threads: int = 1
    paths: LocalPaths = field(default_factory=LocalPaths)

    def write_spec(self, kit: Kit) -> Path:
        """Write the spec of the site's worker to the site's folder."""
        study = study_of(kit, self.paths)
        mine, declared = self.notes, study.sites[kit.name]
        data, names = (None if path is None else path.resolve() for path in (mine.data, mine.names))
        own = replace(
            declared,
            data=data,
            format=mine.format,
            options=mine.options,
            built_in=mine.built_in,
            names=names,
            skip_faulty=mine.skip_faulty,
        )
        text = to_toml(replace(study, sites={**study.sites, kit.name: own}))
        folder = site_folder(kit)
        party = None if not study.privacy.protection.protects else party_of(kit)
        spec = WorkerSpec(text, str(folder.path.resolve()), self.device, self.threads, kit.name, party=party)
        return spec.write(folder.path / SPEC)
