"""What a worker process is told, and how it is started: apart from the worker, so that who starts it loads no model."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["WorkerSpec", "worker_command"]

_PRIVATE = 0o600  # it says where notes are


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker must know."""

    study: str  # the text of the study file, with absolute paths
    folder: str  # the run folder, with a folder for each site; among hospitals, the site's own
    device: str = "cpu"
    threads: int = 1
    site: str = ""  # among hospitals: which one this is
    ledgers: bool = False  # on one machine: whether sites write theirs

    def write(self, path: Path) -> Path:
        """Where a worker reads it."""
        path.touch(mode=_PRIVATE)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> WorkerSpec:
        """What `write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def worker_command(spec: Path) -> tuple[str, ...]:
    """What starts a worker."""
    return (sys.executable, "-m", "wardround.studies.worker", str(spec))
