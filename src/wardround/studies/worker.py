"""A process that answers for sites of a study: `python -m wardround.studies.worker SPEC`.

SPEC is a JSON file that stays on the machine: the study, the folder in which sites keep their state, and the device. On
one machine a worker answers for several sites. In a networked study it answers for one site, which writes its state to
disk before it answers.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import torch

from wardround.federation.engines.open_sites import OpenSites
from wardround.federation.worker_process import RequestHandler, serve_worker
from wardround.process_hardening import forbid_core_dumps
from wardround.studies.party_keys import InMemoryKeys, PartyKeys
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.single_site import pick_device
from wardround.studies.site_policy import read_site_policy
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import parse_study
from wardround.studies.worker_spec import WorkerSpec

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Answer until the parent sends no more questions."""
    # A terminal sends Ctrl-C to every process; the parent finishes the round and then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spec = WorkerSpec.read(Path(arguments[0]))
    torch.set_num_threads(spec.threads)
    study, folder, device = (
        parse_study(spec.study, generated=True),
        RunFolder(Path(spec.folder)),
        pick_device(spec.device),
    )
    if spec.site:
        party_keys = None if spec.party is None else PartyKeys.of_site(study, spec.party)
        policy = read_site_policy(folder.path)
        serve_worker(
            lambda: open_here(
                study,
                spec.site,
                folder.path,
                device=device,
                durable=True,
                party_keys=party_keys,
                site_policy=policy,
            )
        )
        return
    party_keys = PartyKeys(secrets=InMemoryKeys.read(spec.key) if spec.key else None)
    model_pool = SharedModelPool(study, device)

    def open_named(name: str) -> RequestHandler:
        own = folder.site(name)
        return open_here(
            study, name, own, device=device, ledger=spec.ledgers, party_keys=party_keys, model_pool=model_pool
        )

    serve_worker(lambda: OpenSites(open_named))


if __name__ == "__main__":
    forbid_core_dumps()
    main(sys.argv[1:])
