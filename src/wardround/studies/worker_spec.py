"""The settings of a worker process and its command; a module of its own, so that the parent loads no model."""

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
    """The paths of a site's key and certificates, and the address of the key service."""

    folder: str
    key: str
    certificate: str
    root: str
    service: str = ""  # host:port of the key service; empty if keys are issued offline


@dataclass(frozen=True)
class WorkerSpec:
    """The settings of a worker process."""

    study: str  # the text of the study file, with absolute paths
    folder: str  # the run folder, with a folder for each site; among hospitals, the site's own
    device: str = "cpu"
    threads: int = 1
    site: str = ""  # among hospitals: which one this is
    ledgers: bool = False  # on one machine: whether sites write theirs
    key: str = ""  # on one machine: path of the sealing key of the run, in the memory of the parent process
    party: PartySpec | None = None  # among hospitals: the files with which the site signs and gets its sealing key

    def write(self, path: Path) -> Path:
        """Write the file that a worker reads."""
        path.touch(mode=_PRIVATE)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> WorkerSpec:
        """Read the file that `write` wrote."""
        found = read_json(path)
        party = found.pop("party")
        return cls(**found, party=None if party is None else PartySpec(**party))


def worker_command(spec: Path) -> tuple[str, ...]:
    """Return the command that starts a worker."""
    return (sys.executable, "-m", "wardround.studies.worker", str(spec))
