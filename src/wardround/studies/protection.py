"""What a party brings to a study whose updates are protected: keys, identities, and who vouches for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wardround.errors import UsageError
from wardround.studies.study_file import Study, digest_of
from wardround.studies.worker_spec import PartySpec

if TYPE_CHECKING:
    from wardround.privacy.identities import Identity
    from wardround.privacy.keys.material import PublicParameters, SealingSecret
    from wardround.privacy.keys.peers import PartyFiles
    from wardround.privacy.protected_giver import SecretSource
    from wardround.privacy.signatures import Signatures

__all__ = ["Protection", "Rehearsal", "check_installed"]


def check_installed(study: Study) -> None:
    """Refuse a study whose mechanism needs what is not installed here."""
    needed = {"plain": (), "masked": ("cryptography",)}.get(study.privacy.mechanism, ("cryptography", "tenseal"))
    for name in needed:
        if find_spec(name) is None:
            raise UsageError(f"[privacy] {study.privacy.mechanism} needs {name}: install wardround[sealed]")


@dataclass
class Protection:
    """One party's means; without a certifier, for studies on one machine, cards are believed as they are."""

    certifier: Signatures | None = None
    secrets: SecretSource | None = None  # at a site
    parameters: Callable[[], PublicParameters] | None = None  # at the coordinator
    _identities: dict[str, Identity] = field(default_factory=dict, repr=False)

    def identity(self, site: str) -> Identity:
        """The site's keys, fresh in each process: a site that is laid aside and opened again keeps them."""
        from wardround.privacy.identities import Identity

        if site not in self._identities:
            self._identities[site] = Identity.new(site, self.certifier)
        return self._identities[site]

    @classmethod
    def of_site(cls, study: Study, party: PartySpec) -> Protection:
        """A hospital's: its certificate vouches for it, its sealing keys come from the service or from its vault."""
        from wardround.privacy.keys.party import SiteKeys
        from wardround.privacy.signatures import open_signatures

        files = _files(party)
        certifier = open_signatures(key=files.key, certificate=files.certificate, root=files.root)
        if not study.privacy.is_sealed:
            return cls(certifier)
        return cls(certifier, secrets=SiteKeys(files, study=digest_of(study), service=party.service))

    @classmethod
    def of_coordinator(cls, study: Study, party: PartySpec) -> Protection:
        """The coordinator's, which holds no secret and stops where it finds one."""
        from wardround.privacy.keys.material import refuse_secrets
        from wardround.privacy.keys.party import CoordinatorKeys
        from wardround.privacy.signatures import open_signatures

        files = _files(party)
        refuse_secrets(files.folder, own=files.key)
        certifier = open_signatures(key=files.key, certificate=files.certificate, root=files.root)
        if not study.privacy.is_sealed:
            return cls(certifier)
        keys = CoordinatorKeys(files, study=digest_of(study), service=party.service)
        return cls(certifier, parameters=keys.parameters)


def _files(party: PartySpec) -> PartyFiles:
    from wardround.privacy.keys.peers import PartyFiles

    return PartyFiles(Path(party.folder), Path(party.key), Path(party.certificate), Path(party.root))


class Rehearsal:
    """The sealing secret of a study on one machine: in memory, for as long as the study runs."""

    def __init__(self, data: bytes) -> None:
        from wardround.privacy.keys.material import SealingSecret

        self._secret = SealingSecret.from_bytes(data)
        self._data = data
        self._descriptor = -1

    @classmethod
    def new(cls, scheme: str) -> Rehearsal:
        """A fresh one."""
        from wardround.privacy.keys.material import SealingSecret, new_secret

        return cls(SealingSecret(1, scheme, new_secret(scheme)).to_bytes())

    @classmethod
    def read(cls, path: str) -> Rehearsal:
        """In a worker process that inherited it: the one at the path that `path_for_workers` gave."""
        return cls(Path(path).read_bytes())

    def secret(self, epoch: int) -> SealingSecret:
        """There is one epoch."""
        return self._secret

    def parameters(self, study: str) -> PublicParameters:
        """What the coordinator may know."""
        return self._secret.public(study)

    def path_for_workers(self) -> str:
        """Where a process that inherits `descriptors` reads it; nothing of it is on disk."""
        if self._descriptor < 0:
            self._descriptor = os.memfd_create("wardround")
            os.write(self._descriptor, self._data)
        return f"/proc/self/fd/{self._descriptor}"

    def descriptors(self) -> tuple[int, ...]:
        """What workers must inherit: no other process may open it."""
        return () if self._descriptor < 0 else (self._descriptor,)

    def close(self) -> None:
        """Forget what workers could read."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
