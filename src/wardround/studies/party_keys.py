"""The keys of a party in a study whose updates are protected: identity, certificates and sealing keys."""

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
    from wardround.secure_aggregation.identities import Identity, Signatures
    from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret
    from wardround.secure_aggregation.keys.peers import PartyFiles

__all__ = ["InMemoryKeys", "PartyKeys"]


@dataclass
class PartyKeys:
    """The keys of one party; without a certifier, on one machine, public keys are not verified."""

    certifier: Signatures | None = None
    secrets: SecretSource | None = None  # at a site
    parameters: Callable[[], PublicParameters] | None = None  # at the coordinator
    _identities: dict[str, Identity] = field(default_factory=dict, repr=False)

    def identity(self, site: str) -> Identity:
        """Return the site's keys, created once per process: a site that is closed and opened again keeps them."""
        from wardround.secure_aggregation.identities import Identity

        if site not in self._identities:
            self._identities[site] = Identity.new(site, self.certifier)
        return self._identities[site]

    @classmethod
    def of_site(cls, study: Study, party: PartySpec) -> PartyKeys:
        """Return a hospital's keys: its certificate, and sealing keys from the key service or its vault."""
        from wardround.secure_aggregation.identities import open_signatures
        from wardround.secure_aggregation.keys.party import SiteKeys

        files = _files(party)
        certifier = open_signatures(key=files.key, certificate=files.certificate, root=files.root)
        if not study.privacy.protection.seals:
            return cls(certifier)
        return cls(certifier, secrets=SiteKeys(files, study=digest_of(study), service=party.service))

    @classmethod
    def of_coordinator(cls, study: Study, party: PartySpec) -> PartyKeys:
        """Return the coordinator's keys; raise an error if its folder holds a secret."""
        from wardround.secure_aggregation.identities import open_signatures
        from wardround.secure_aggregation.keys.material import refuse_secrets
        from wardround.secure_aggregation.keys.party import CoordinatorKeys

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
    """The sealing secret of a study on one machine, kept in memory while the study runs."""

    def __init__(self, data: bytes) -> None:
        from wardround.secure_aggregation.keys.material import SealingSecret

        self._secret = SealingSecret.from_bytes(data)
        self._data = data
        self._descriptor = -1

    @classmethod
    def new(cls, scheme: str) -> InMemoryKeys:
        """Create a new secret."""
        from wardround.secure_aggregation.keys.material import SealingSecret, new_secret

        return cls(SealingSecret(1, scheme, new_secret(scheme)).to_bytes())

    @classmethod
    def read(cls, path: str) -> InMemoryKeys:
        """Read the secret in a worker process, from the path that `path_for_workers` returned."""
        return cls(Path(path).read_bytes())

    def secret(self, epoch: int) -> SealingSecret:
        """Return the secret; there is only one epoch."""
        return self._secret

    def parameters(self, study: str) -> PublicParameters:
        """Return what the coordinator may know about the secret."""
        return self._secret.public(study)

    def path_for_workers(self) -> str:
        """Return a path from which a process that inherits `descriptors` can read; nothing is written to disk."""
        if self._descriptor < 0:
            self._descriptor = os.memfd_create("wardround")
            os.write(self._descriptor, self._data)
        return f"/proc/self/fd/{self._descriptor}"

    def descriptors(self) -> tuple[int, ...]:
        """Return the file descriptors that workers must inherit; no other process can open them."""
        return () if self._descriptor < 0 else (self._descriptor,)

    def close(self) -> None:
        """Close the descriptor that workers read."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
