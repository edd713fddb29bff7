"""Check the state of the epochs against the log of the key service.

A restored backup of `epochs.vault` lacks everything since the backup: revocations, pinned certificates, and epochs,
whose numbers would then be used for other secrets. The log is append-only and is written after each change of the
vault, so a vault that lacks something in the log is an old one.
"""

from __future__ import annotations

from pathlib import Path

from wardround.errors import KeyMaterialError
from wardround.federation.federation import SiteId
from wardround.secure_aggregation.keys.key_log import read_log
from wardround.secure_aggregation.keys.service_state import KeyState

__all__ = ["check_not_older", "logged_state"]


def logged_state(path: Path, study: str) -> KeyState:
    """Return the current epoch, revoked sites and pinned certificates according to a log."""
    current = 0
    revoked: dict[SiteId, None] = {}
    given: dict[SiteId, str] = {}
    admitted: dict[SiteId, str] = {}
    for line in read_log(path):
        if line.outcome not in ("given", "done"):
            continue
        current = max(current, line.epoch)
        what, _, site = line.asked.rpartition(" ")
        if line.asked == "secret":
            given[line.who] = line.certificate
        elif what == "copy for":
            given[site] = line.certificate
        elif what == "revoke":
            revoked[site] = None
        elif what == "admit":
            revoked.pop(site, None)
            if line.certificate:
                admitted[site] = line.certificate
    # A line about a secret may be written after the line of a later admission.
    return KeyState(study, current=current, oldest=current, revoked=tuple(revoked), pinned={**given, **admitted})


def check_not_older(state: KeyState, logged: KeyState) -> None:
    """Raise if a state lacks something in the log; the log must have been read before the state."""
    forgotten = [f"{site} was revoked" for site in logged.revoked if site not in state.revoked]
    changed = [site for site, known in logged.pinned.items() if state.pinned.get(site) != known]
    forgotten += [f"{site} has a certificate" for site in changed]
    if state.current < logged.current:
        forgotten.append(f"epoch {logged.current} was begun")
    if forgotten:
        raise KeyMaterialError(
            f"epochs.vault is older than keys.jsonl, which says that {', '.join(sorted(forgotten))}; restore the "
            "newest copy of the vault, or remove the vault: a new one continues from the log, under a new key"
        )
