"""A site of a networked study: its acceptance, and the process that answers requests and loads no model itself."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from getpass import getuser
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wardround.federation.engines.flare.site_session import run_site_session
from wardround.models.cards import CARD
from wardround.parsing import read_json
from wardround.provisioning.kits import Kit
from wardround.secure_aggregation.identities import open_signatures
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_guard import run_lock
from wardround.studies.site_policy import policy_digest
from wardround.studies.worker_spec import worker_command

__all__ = ["SPEC", "LocalPaths", "accept", "acceptance", "has_accepted", "party_command", "site_folder", "take_part"]

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

    model = site_folder(kit).model
    with run_lock(site_folder(kit).path):
        return run_site_session(
            kit.party,
            worker_command(site_folder(kit).path / SPEC),
            signatures=open_signatures(key=kit.key, certificate=kit.certificate, root=kit.root),
            accepted=accepted,
            last_line=lambda: f"model   {model}" if (model / CARD).is_file() else "no model was written here",
        )


def accept(kit: Kit, *, by: str = "") -> None:
    """Record that the site's owner accepts exactly this study, under the present policy of the site.

    The record says who accepted, when, and with which version; nothing is sent.
    """
    folder = site_folder(kit)
    record = {
        "study": sha256(kit.study).hexdigest(),
        "policy": policy_digest(folder.path),
        "by": by or _user(),
        "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "version": version("wardround"),
    }
    folder.write_json(_ACCEPTED, record)


def has_accepted(kit: Kit) -> bool:
    """Return whether the site's owner accepted exactly this study, and has not changed the site's policy since."""
    return _acceptance(kit) is not None


def acceptance(kit: Kit) -> str:
    """Return who accepted exactly this study, when and with which version; empty without an acceptance."""
    record = _acceptance(kit)
    if record is None:
        return ""
    known = {name: str(record[name])[:100] for name in ("by", "at", "version") if record.get(name)}
    return f"by {known['by']} at {known['at']} with version {known['version']}" if len(known) == 3 else "yes"


def _acceptance(kit: Kit) -> dict[str, Any] | None:
    path = site_folder(kit).path / _ACCEPTED
    try:
        record = read_json(path)
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("study") != sha256(kit.study).hexdigest():
        return None
    return record if record.get("policy", "") == policy_digest(site_folder(kit).path) else None


def _user() -> str:
    """Return the name of the user at this machine."""
    try:
        return getuser()
    except (OSError, KeyError):  # a container without an entry for the user
        return f"user {os.getuid()}"


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
