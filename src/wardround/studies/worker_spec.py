"""What a worker process is told, and how it is started: apart from the worker, so that who starts it loads no model."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from wardround.parsing import read_json

__all__ = ["PartySpec", "WorkerSpec", "worker_command"]

_PRIVATE = 0o600  # it says where notes are


@dataclass(frozen=True)
class PartySpec:
    """Where a site's own key and certificates are, and where sealing keys are had."""

    folder: str
    key: str
    certificate: str
    root: str
    service: str = ""  # host:port of the key service; empty where keys are issued offline


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker must know."""

    study: str  # the text of the study file, with absolute paths
    folder: str  # the run folder, with a folder for each site; among hospitals, the site's own
    device: str = "cpu"
    threads: int = 1
    site: str = ""  # among hospitals: which one this is
    ledgers: bool = False  # on one machine: whether sites write theirs
    key: str = ""  # on one machine: where the sealing key of the run is read, in its parent's memory
    party: PartySpec | None = None  # among hospitals: with what the site signs and has its sealing key

    def write(self, path: Path) -> Path:
        """Where a worker reads it."""
        path.touch(mode=_PRIVATE)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> WorkerSpec:
        """What `write` wrote."""
        found = read_json(path)
        party = found.pop("party")
        return cls(**found, party=None if party is None else PartySpec(**party))


def worker_command(spec: Path) -> tuple[str, ...]:
    """What starts a worker."""
    return (sys.executable, "-m", "wardround.studies.worker", str(spec))
