"""A process that answers for sites of a study: `python -m wardround.studies.worker SPEC`.

SPEC is a JSON file that stays on the machine: the study, the folder in which sites keep what is theirs, the device on
which they work. On one machine a worker answers for several sites; among hospitals for one, which writes all that must
last before it answers.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from wardround.federation.open_sites import OpenSites
from wardround.federation.site_door import SiteDoor
from wardround.federation.worker_process import serve_worker
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import pick_device
from wardround.studies.sites import open_here
from wardround.studies.study_file import parse_study

__all__ = ["WorkerSpec", "command", "main"]

_PRIVATE = 0o600  # it says where notes are


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker must know."""

    study: str  # the text of the study file, with absolute paths
    folder: str  # the run folder, with a folder for each site; among hospitals, the site's own
    device: str = "cpu"
    threads: int = 1
    site: str = ""  # among hospitals: which one this is

    def write(self, path: Path) -> Path:
        """Where a worker reads it."""
        path.touch(mode=_PRIVATE)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path


def command(spec: Path) -> tuple[str, ...]:
    """What starts a worker."""
    return (sys.executable, "-m", "wardround.studies.worker", str(spec))


def main(arguments: list[str]) -> None:
    """Answer until the parent has no more questions."""
    spec = WorkerSpec(**json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    torch.set_num_threads(spec.threads)
    study, folder, device = parse_study(spec.study), RunFolder(Path(spec.folder)), pick_device(spec.device)
    if spec.site:
        serve_worker(lambda: open_here(study, spec.site, folder.path, device=device, lasting=True))
        return

    def open_named(name: str) -> SiteDoor:
        return open_here(study, name, folder.site(name), device=device)

    serve_worker(lambda: OpenSites(open_named))


if __name__ == "__main__":
    main(sys.argv[1:])
