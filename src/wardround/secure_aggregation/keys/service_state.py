"""The epochs of a study's sealing keys at their issuer: the secrets, who has them, and who must not get them.

Everything is in one vault, `epochs.vault`. A rotation begins a new epoch; the previous one may still be used, so that a
running exchange can finish. A revocation also begins a new epoch and ends all earlier ones, because the revoked site
holds their secrets. Secrets of ended epochs are removed.

The first certificate with which a site asks for a secret is pinned: the holder of the study's authority could issue
another one with the site's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from wardround.errors import KeyMaterialError, MessageError
from wardround.federation.federation import SiteId
from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret, vault_entry
from wardround.secure_aggregation.keys.peers import Peer
from wardround.secure_aggregation.keys.vault import Lock, Vault

__all__ = ["Epochs", "KeyState"]

_STATE = "state"
_MOST_WAITING = 8  # refused certificates that are remembered for each site
Result = TypeVar("Result")
Secrets = dict[str, bytes]


@dataclass(frozen=True)
class KeyState:
    """The facts about epochs and sites, without the secrets."""

    study: str
    current: int = 0
    oldest: int = 0  # earlier epochs have ended
    revoked: tuple[SiteId, ...] = ()
    pinned: Mapping[SiteId, str] = field(default_factory=dict)  # fingerprints
    # Fingerprints of certificates that were refused because another certificate of the site is pinned.
    waiting: Mapping[SiteId, tuple[str, ...]] = field(default_factory=dict)
    given: Mapping[SiteId, tuple[int, ...]] = field(default_factory=dict)  # epochs whose secret each site received

    def next(self, *, keeps_previous: bool) -> KeyState:
        """Return the state with a new epoch."""
        current = self.current + 1
        return replace(self, current=current, oldest=max(self.current, 1) if keeps_previous else current)

    def check(self, peer: Peer, epoch: int) -> None:
        """Raise a `MessageError` if a site may not have the secret of an epoch."""
        if peer.name in self.revoked:
            raise MessageError("revoked", f"{peer.name} was revoked")
        if self.pinned.get(peer.name, peer.fingerprint) != peer.fingerprint:
            raise MessageError("certificate", f"{peer.name} asked with another certificate before")
        if not self.oldest <= epoch <= self.current:
            raise MessageError("epoch", f"{epoch} is not in use")

    def after_issue(self, peer: Peer, epoch: int) -> KeyState:
        """Return the state after the site received the secret of an epoch."""
        pinned = {**self.pinned, peer.name: peer.fingerprint} if peer.fingerprint else self.pinned
        epochs = tuple(sorted({*self.given.get(peer.name, ()), epoch}))
        return replace(self, pinned=pinned, given={**self.given, peer.name: epochs})

    def after_refusal(self, peer: Peer) -> KeyState:
        """Return the state after the site was refused because another certificate is pinned."""
        seen = [known for known in self.waiting.get(peer.name, ()) if known != peer.fingerprint]
        waiting = (*seen[1 - _MOST_WAITING :], peer.fingerprint)
        return replace(self, waiting={**self.waiting, peer.name: waiting})

    def after_admission(self, site: SiteId, fingerprint: str) -> KeyState:
        """Return the state in which the site may ask again; `fingerprint`, if set, is that of its new certificate."""
        return replace(
            self,
            revoked=tuple(name for name in self.revoked if name != site),
            pinned={**self.pinned, site: fingerprint} if fingerprint else self.pinned,
            waiting={name: known for name, known in self.waiting.items() if name != site},
        )


class Epochs:
    """The epochs in a vault, which another process may change at any time."""

    def __init__(self, vault: Vault, study: str) -> None:
        self._vault = vault
        self._study = study
        self.state()

    @classmethod
    def create(
        cls,
        path: Path,
        lock: Lock,
        *,
        study: str,
        scheme: str,
        new: Callable[[str], bytes],
        logged: KeyState | None = None,
    ) -> Epochs:
        """Begin the first epoch in a new vault; `new` makes a secret.

        `logged` is the state of a lost vault according to its log.
        """
        state = (logged or KeyState(study)).next(keeps_previous=False)
        secret = SealingSecret(state.current, scheme, new(scheme))
        held = {vault_entry(state.current): secret.to_bytes(), _STATE: _encode_state(state)}
        return cls(Vault.create(path, lock, held), study)

    @classmethod
    def open(cls, path: Path, lock: Lock, *, study: str) -> Epochs:
        """Open existing epochs."""
        return cls(Vault.open(path, lock), study)

    def state(self) -> KeyState:
        """Return the present state."""
        return self._read(self._vault.read())

    def current(self) -> SealingSecret:
        """Return the secret of the current epoch."""
        held = self._vault.read()
        return _secret(held, self._read(held).current)

    def parameters(self) -> PublicParameters:
        """Return the public parameters of the current epoch."""
        held = self._vault.read()
        state = self._read(held)
        return _secret(held, state.current).public(self._study, oldest=state.oldest)

    def issue(self, peer: Peer, epoch: int) -> SealingSecret:
        """Record and return the secret of an epoch for a site; raise a `MessageError` if it may not have it."""

        def issue_secret(held: Secrets) -> SealingSecret | MessageError:
            state = self._read(held)
            try:
                state.check(peer, epoch)
            except MessageError as error:
                if error.code == "certificate":
                    held[_STATE] = _encode_state(state.after_refusal(peer))
                return error
            held[_STATE] = _encode_state(state.after_issue(peer, epoch))
            return _secret(held, epoch)

        found = self._change(issue_secret)
        if isinstance(found, MessageError):
            raise found
        return found

    def rotate(self, new: Callable[[str], bytes], *, at_once: bool = False) -> PublicParameters:
        """Begin a new epoch; the previous one may still be used unless `at_once`."""
        self._begin(new, lambda state: state.next(keeps_previous=not at_once))
        return self.parameters()

    def revoke(self, site: SiteId, new: Callable[[str], bytes]) -> PublicParameters:
        """Revoke a site and begin a new epoch; all earlier ones end."""

        def revoked_state(state: KeyState) -> KeyState:
            if site in state.revoked:
                raise KeyMaterialError(f"{site} was revoked already")
            # A certificate that was refused before is not admitted when the revocation is undone.
            waiting = {name: known for name, known in state.waiting.items() if name != site}
            return replace(state.next(keeps_previous=False), revoked=(*state.revoked, site), waiting=waiting)

        self._begin(new, revoked_state)
        return self.parameters()

    def admit(self, site: SiteId, fingerprint: str = "") -> str:
        """Admit a site that was revoked or has another certificate; return the fingerprint of that certificate.

        Without `fingerprint`, the certificate that was refused is admitted; if several were refused, one must be named.
        """

        def admit_site(held: Secrets) -> str:
            state = self._read(held)
            waiting = state.waiting.get(site, ())
            if len(waiting) > 1 and not fingerprint:
                raise KeyMaterialError(f"{site} asked with several certificates; name one of {', '.join(waiting)}")
            chosen = fingerprint or "".join(waiting)
            if not chosen and site not in state.revoked:
                raise KeyMaterialError(f"{site} was neither revoked nor refused for its certificate; nothing to admit")
            held[_STATE] = _encode_state(state.after_admission(site, chosen))
            return chosen

        return self._change(admit_site)

    def _begin(self, new: Callable[[str], bytes], change: Callable[[KeyState], KeyState]) -> None:
        scheme = self.current().scheme
        made = new(scheme)

        def write_epoch(held: Secrets) -> None:
            state = change(self._read(held))
            held[vault_entry(state.current)] = SealingSecret(state.current, scheme, made).to_bytes()
            held[_STATE] = _encode_state(state)
            for ended in [name for name in held if name != _STATE and int(name.removeprefix("epoch-")) < state.oldest]:
                del held[ended]

        self._vault.change(write_epoch)

    def _change(self, change: Callable[[Secrets], Result]) -> Result:
        results: list[Result] = []
        self._vault.change(lambda held: results.append(change(held)))
        return results[0]

    def _read(self, held: Mapping[str, bytes]) -> KeyState:
        if _STATE not in held:
            raise KeyMaterialError(f"{self._vault.path.name} holds no epochs; it is another vault")
        found = json.loads(held[_STATE])
        if found["study"] != self._study:
            raise KeyMaterialError(f"{self._vault.path.name} belongs to another study; a changed study needs new keys")
        for name in ("waiting", "given"):
            found[name] = {site: tuple(listed) for site, listed in found[name].items()}
        return KeyState(**{**found, "revoked": tuple(found["revoked"])})


def _encode_state(state: KeyState) -> bytes:
    return json.dumps(asdict(state)).encode()


def _secret(held: Mapping[str, bytes], epoch: int) -> SealingSecret:
    return SealingSecret.from_bytes(held[vault_entry(epoch)])
