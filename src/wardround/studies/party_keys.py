"""What a party brings to a study whose updates are protected: keys, identities, and who vouches for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wardround.studies.study_file import Study, digest_of
from wardround.studies.worker_spec import PartySpec

if TYPE_CHECKING:
    from wardround.secure_aggregation.client import SecretSource
    from wardround.secure_aggregation.identities import Identity
    from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret
    from wardround.secure_aggregation.keys.peers import PartyFiles
    from wardround.secure_aggregation.signatures import Signatures

__all__ = ["InMemoryKeys", "PartyKeys"]


@dataclass
class PartyKeys:
    """One party's means; without a certifier, for studies on one machine, cards are believed as they are."""

    certifier: Signatures | None = None
    secrets: SecretSource | None = None  # at a site
    parameters: Callable[[], PublicParameters] | None = None  # at the coordinator
    _identities: dict[str, Identity] = field(default_factory=dict, repr=False)

    def identity(self, site: str) -> Identity:
        """The site's keys, fresh in each process: a site that is laid aside and opened again keeps them."""
        from wardround.secure_aggregation.identities import Identity

        if site not in self._identities:
            self._identities[site] = Identity.new(site, self.certifier)
        return self._identities[site]

    @classmethod
    def of_site(cls, study: Study, party: PartySpec) -> PartyKeys:
        """A hospital's: its certificate vouches for it, its sealing keys come from the service or from its vault."""
        from wardround.secure_aggregation.keys.party import SiteKeys
        from wardround.secure_aggregation.signatures import open_signatures

        files = _files(party)
        certifier = open_signatures(key=files.key, certificate=files.certificate, root=files.root)
        if not study.privacy.protection.seals:
            return cls(certifier)
        return cls(certifier, secrets=SiteKeys(files, study=digest_of(study), service=party.service))

    @classmethod
    def of_coordinator(cls, study: Study, party: PartySpec) -> PartyKeys:
        """The coordinator's, which holds no secret and stops where it finds one."""
        from wardround.secure_aggregation.keys.material import refuse_secrets
        from wardround.secure_aggregation.keys.party import CoordinatorKeys
        from wardround.secure_aggregation.signatures import open_signatures

        files = _files(party)
        refuse_secrets(files.folder, own=files.key)
        certifier = open_signatures(key=files.key, certificate=files.certificate, root=files.root)
        if not study.privacy.protection.seals:
            return cls(certifier)
        keys = CoordinatorKeys(files, study=digest_of(study), service=party.service)
        return cls(certifier, parameters=keys.parameters)


def _files(party: PartySpec) -> PartyFiles:
    from wardround.secure_aggregation.keys.peers import PartyFiles

    return PartyFiles(Path(party.folder), Path(party.key), Path(party.certificate), Path(party.root))


class InMemoryKeys:
    """The sealing secret of a study on one machine: in memory, for as long as the study runs."""

    def __init__(self, data: bytes) -> None:
        from wardround.secure_aggregation.keys.material import SealingSecret

        self._secret = SealingSecret.from_bytes(data)
        self._data = data
        self._descriptor = -1

    @classmethod
    def new(cls, scheme: str) -> InMemoryKeys:
        """A fresh one."""
        from wardround.secure_aggregation.keys.material import SealingSecret, new_secret

        return cls(SealingSecret(1, scheme, new_secret(scheme)).to_bytes())

    @classmethod
    def read(cls, path: str) -> InMemoryKeys:
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
