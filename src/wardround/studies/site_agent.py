"""A site of a networked study: its acceptance, and the process that answers requests and loads no model itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from wardround.federation.engines.flare.site_session import run_site_session
from wardround.parsing import read_json
from wardround.provisioning.kits import Kit
from wardround.secure_aggregation.identities import open_signatures
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_policy import policy_digest
from wardround.studies.worker_spec import worker_command

__all__ = ["SPEC", "LocalPaths", "accept", "has_accepted", "party_command", "site_folder", "take_part"]

SPEC = "worker.json"  # what the site decided for itself, in its folder
_ACCEPTED = "accepted.json"


def site_folder(kit: Kit) -> RunFolder:
    """Return the folder in which a site keeps its state, ledger and model."""
    return RunFolder(kit.path / "site")


def take_part(kit: Kit) -> int:
    """Run the site in this process until the study is over; return the exit code. The worker spec must exist."""
    was_accepted = False

    def accepted() -> bool:
        """Read the acceptance until it exists; from then on it is valid while the process runs."""
        nonlocal was_accepted
        was_accepted = was_accepted or has_accepted(kit)
        return was_accepted

    return run_site_session(
        kit.party,
        worker_command(site_folder(kit).path / SPEC),
        signatures=open_signatures(key=kit.key, certificate=kit.certificate, root=kit.root),
        accepted=accepted,
    )


def accept(kit: Kit) -> None:
    """Record that the site's owner accepts exactly this study, under the present policy of the site."""
    folder = site_folder(kit)
    folder.write_json(_ACCEPTED, {"study": sha256(kit.study).hexdigest(), "policy": policy_digest(folder.path)})


def has_accepted(kit: Kit) -> bool:
    """Return whether the site's owner accepted exactly this study, and has not changed the site's policy since."""
    path = site_folder(kit).path / _ACCEPTED
    try:
        acceptance = read_json(path)
    except (OSError, ValueError):
        return False
    if not isinstance(acceptance, dict) or acceptance.get("study") != sha256(kit.study).hexdigest():
        return False
    return bool(acceptance.get("policy", "") == policy_digest(site_folder(kit).path))


@dataclass(frozen=True)
class LocalPaths:
    """The local paths of files that a study names but its kits do not contain."""

    vectors: Path | None = None
    public: Path | None = None
    start: Path | None = None  # at the coordinator only

    def options(self) -> tuple[str, ...]:
        """Return the paths as options of a command line."""
        named = (("--vectors", self.vectors), ("--public", self.public), ("--start", self.start))
        return tuple(part for name, path in named if path is not None for part in (name, str(path.resolve())))


def party_command(role: str, kit: Path, paths: LocalPaths | None = None) -> tuple[str, ...]:
    """Return the command that a supervisor runs: this program again, for one party."""
    return (sys.executable, "-m", "wardround.cli.main", role, "work", str(kit), *(paths or LocalPaths()).options())
