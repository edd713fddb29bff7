"""A site at a networked study: whether it was accepted, and the process that answers, which itself loads no model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from wardround.federation.engines.flare.site_session import attend
from wardround.parsing import read_json
from wardround.provisioning.kits import Kit
from wardround.secure_aggregation.signatures import open_signatures
from wardround.studies.run_folder import RunFolder
from wardround.studies.worker_spec import worker_command

__all__ = ["SPEC", "LocalPaths", "accept", "has_accepted", "party_command", "site_folder", "take_part"]

SPEC = "worker.json"  # what the site decided for itself, in its folder
_ACCEPTED = "accepted.json"


def site_folder(kit: Kit) -> RunFolder:
    """Where a site keeps its state, its ledger and its model."""
    return RunFolder(kit.path / "site")


def take_part(kit: Kit) -> int:
    """Run the site in this process until the study is over; the exit code. Its choice was written before."""
    return attend(
        kit.party,
        worker_command(site_folder(kit).path / SPEC),
        signatures=open_signatures(key=kit.key, certificate=kit.certificate, root=kit.root),
        accepted=_acceptance(kit),
    )


def accept(kit: Kit) -> None:
    """Note that the site's owner accepts this very study."""
    site_folder(kit).write_json(_ACCEPTED, {"study": sha256(kit.study).hexdigest()})


def has_accepted(kit: Kit) -> bool:
    """Whether the site's owner accepted this very study."""
    path = site_folder(kit).path / _ACCEPTED
    try:
        noted = read_json(path)
    except (OSError, ValueError):
        return False
    return isinstance(noted, dict) and noted.get("study") == sha256(kit.study).hexdigest()


@dataclass(frozen=True)
class LocalPaths:
    """Where files are that a study names and that its kits do not hold."""

    vectors: Path | None = None
    public: Path | None = None
    start: Path | None = None  # of the coordinator alone

    def options(self) -> tuple[str, ...]:
        """The same for a command line."""
        named = (("--vectors", self.vectors), ("--public", self.public), ("--start", self.start))
        return tuple(part for name, path in named if path is not None for part in (name, str(path.resolve())))


def party_command(role: str, kit: Path, places: LocalPaths | None = None) -> tuple[str, ...]:
    """What a supervisor runs: this program again, for one party."""
    return (sys.executable, "-m", "wardround.cli.main", role, "work", str(kit), *(places or LocalPaths()).options())


def _acceptance(kit: Kit) -> Callable[[], bool]:
    """Looked up until it is given; once given it stands while the process runs."""
    given = False

    def accepted() -> bool:
        nonlocal given
        given = given or has_accepted(kit)
        return given

    return accepted
