"""How the parties of a study get keys: a site gets its secrets, the coordinator the public parameters.

Both ask the key service. Errors are `MessageError`s whose code may be sent to other parties:

keys-unreachable     there is no connection, or it broke
keys-certificate     the other end is not this study's key service, or not the same one as before
keys-answer          the answer cannot be used
revoked, certificate, not-a-site, unknown, epoch, study, busy, log, …    the service's own refusals
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPSConnection
from typing import TypeVar

from wardround.errors import KeyMaterialError, MessageError
from wardround.federation.federation import SiteId, safe_code
from wardround.federation.message import Message, Value, decode, encode
from wardround.secure_aggregation.keys.copies import SealedCopy
from wardround.secure_aggregation.keys.key_service import SERVICE
from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret, vault_entry
from wardround.secure_aggregation.keys.passphrase import lock_from, passphrase_is_set
from wardround.secure_aggregation.keys.peers import PartyFiles, peer_of, tls_client
from wardround.secure_aggregation.keys.vault import Lock, Vault, write_whole

__all__ = ["CoordinatorKeys", "KeyClient", "SiteKeys", "parse_address"]

Result = TypeVar("Result")

# Refusals that are final; any other code is a temporary fault.
_FINAL = ("revoked", "unknown", "study", "keys-certificate")
_CACHE_SECONDS = 5.0  # for which the coordinator reuses the service's last answer
_CHECK_INTERVAL = 60.0  # seconds between two requests of a site for the epochs that have ended
_LARGEST_ANSWER = 32_000_000  # bytes
_SECONDS = 10.0  # for each step of an exchange with the service


class KeyClient:
    """One party's client of the key service; each question opens a new connection.

    `known` is the fingerprint of the service's certificate if it is known already: the holder of the study's authority
    could issue another certificate with the service's name.
    """

    def __init__(
        self, host: str, port: int, *, files: PartyFiles, study: str, known: str = "", seconds: float = _SECONDS
    ) -> None:
        self.known = known
        self._host, self._port = host, port
        self._study = study
        self._seconds = seconds
        self._tls = tls_client(files)

    def parameters(self) -> PublicParameters:
        """Return the public parameters of the current epoch."""
        found = PublicParameters.from_values(self._ask({"ask": "parameters"}).values.get("parameters"))
        if found.study != self._study:
            raise MessageError("keys-answer", "the service belongs to another study")
        return found

    def secret(self, epoch: int) -> SealingSecret:
        """Return the secret of an epoch; for sites only."""
        found = SealingSecret.from_bytes(self._ask({"ask": "secret", "epoch": epoch}).blobs.get("secret", b""))
        if found.epoch != epoch:
            raise MessageError("keys-answer", "the service sent the secret of another epoch")
        return found

    def _ask(self, question: dict[str, Value]) -> Message:
        answer = self._exchange(encode(Message({**question, "study": self._study})))
        if code := answer.values.get("code"):
            raise MessageError(safe_code(str(code)), "the key service refused")
        return answer

    def _exchange(self, body: bytes) -> Message:
        connection = HTTPSConnection(self._host, self._port, timeout=self._seconds, context=self._tls)
        try:
            connection.connect()
            self._check_service(connection.sock)
            connection.request("POST", "/", body)
            answer = connection.getresponse()
            data = answer.read(_LARGEST_ANSWER + 1)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, TimeoutError):
            raise MessageError("keys-unreachable", "the key service closed the connection") from None
        except ssl.SSLError:
            raise MessageError("keys-certificate", "the key service and this party do not trust each other") from None
        except (OSError, HTTPException):
            raise MessageError("keys-unreachable", "the key service does not answer; is it running?") from None
        finally:
            connection.close()
        if answer.status != 200 or len(data) > _LARGEST_ANSWER:
            raise MessageError("keys-answer", "the answer of the key service cannot be read")
        return decode(data)

    def _check_service(self, connection: object) -> None:
        """Check, before anything is sent, that the other end has the certificate of the key service."""
        assert isinstance(connection, ssl.SSLSocket)
        peer = peer_of(connection.getpeercert(binary_form=True) or b"")
        if peer.name != SERVICE:
            raise MessageError("keys-certificate", "the other end is another party of the study")
        if self.known and peer.fingerprint != self.known:
            raise MessageError("keys-certificate", "the key service shows another certificate than before")
        self.known = peer.fingerprint


def parse_address(place: str) -> tuple[str, int]:
    """Return host and port of an address `host:port`."""
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise MessageError("keys-unreachable", "the kit does not say where the key service is")
    return host, int(port)


class SiteKeys:
    """A site's secrets: in memory, in its vault, or from the key service. May be used by several threads.

    `service` is `host:port`, or empty if keys are issued offline. A vault is created if the environment has a
    passphrase; otherwise secrets from the service stay in memory only. The terminal is never asked.
    """

    def __init__(
        self,
        files: PartyFiles,
        *,
        study: str,
        service: str = "",
        lock: Lock | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._study = study
        self._service = service
        self._lock = lock or (lock_from(ask=False) if files.vault.exists() or passphrase_is_set() else None)
        self._clock = clock
        self._mutex = threading.Lock()
        self._secrets: dict[int, SealingSecret] = {}
        self._oldest = 0
        self._next_check = float("-inf")
        self._vault: Vault | None = None
        self._version = (0, 0)

    def secret(self, epoch: int) -> SealingSecret:
        """Return the secret of an epoch that has not ended; raise a `MessageError` if there is none."""
        with self._mutex:
            self._update_ended_epochs()
            if epoch < self._oldest:
                raise MessageError("epoch", f"epoch {epoch} has ended; nothing is sealed under it any more")
            self._drop_stale_secrets()
            found = self._secrets.get(epoch) or self._from_vault(epoch) or self._from_service(epoch)
            self._secrets[epoch] = found
            return found

    def current(self) -> tuple[PublicParameters, SealingSecret]:
        """Return the current epoch of the service."""
        parameters = self._ask_service(KeyClient.parameters)
        secret = self.secret(parameters.epoch)
        if secret.id != parameters.id:
            raise MessageError("keys-answer", "this site's secret of the epoch is not the one that the service names")
        return parameters, secret

    def load_copy(self, copy: SealedCopy, site: SiteId) -> SealingSecret:
        """Open a copy that was encrypted for this site and store it; remove epochs that have ended."""
        secret = copy.open(self._files.key.read_bytes(), study=self._study, site=site)
        with self._mutex:
            newest = max(self.epochs(), default=0)
            if secret.epoch < newest:
                raise KeyMaterialError(
                    f"epoch {newest} is here already; the copy of epoch {secret.epoch} is older. If epoch {newest} is "
                    f"not the issuer's, remove {self._files.vault.name} and load the newest copy again"
                )
            self._store(secret, copy.oldest)
        return secret

    def epochs(self) -> dict[int, str]:
        """Return the epochs in the vault and the ids of their secrets."""
        vault = self._open_vault()
        held = map(SealingSecret.from_bytes, vault.read().values()) if vault else ()
        return {secret.epoch: secret.id for secret in sorted(held, key=lambda secret: secret.epoch)}

    def _update_ended_epochs(self) -> None:
        """Ask the service at intervals which epochs have ended; while it is unreachable, use its last answer."""
        if not self._service or self._clock() < self._next_check:
            return
        try:
            oldest = self._ask_service(KeyClient.parameters).oldest
        except MessageError as error:
            if error.code in _FINAL:
                raise
            oldest = self._oldest
        if oldest > self._oldest:
            self._oldest = oldest
            vault = self._open_vault()
            if vault is not None:
                vault.change(lambda held: _remove_before(held, oldest))
        self._next_check = self._clock() + _CHECK_INTERVAL

    def _drop_stale_secrets(self) -> None:
        """Drop the secrets in memory if another process changed the vault."""
        vault = self._open_vault()
        if vault is not None and vault.version != self._version:
            self._secrets.clear()
            self._version = vault.version

    def _open_vault(self) -> Vault | None:
        if self._vault is None and self._lock is not None and self._files.vault.exists():
            self._vault = Vault.open(self._files.vault, self._lock)
        return self._vault

    def _from_vault(self, epoch: int) -> SealingSecret | None:
        vault = self._open_vault()
        found = None if vault is None else vault.get(vault_entry(epoch))
        return None if found is None else SealingSecret.from_bytes(found)

    def _from_service(self, epoch: int) -> SealingSecret:
        if not self._service:
            raise MessageError("epoch", f"this site has no key of epoch {epoch}; ask for a copy")
        secret = self._ask_service(lambda client: client.secret(epoch))
        if self._lock is not None:
            self._store(secret, self._oldest)
        return secret

    def _store(self, secret: SealingSecret, oldest: int) -> None:
        vault = self._open_vault()
        if vault is None:
            if self._lock is None:
                raise KeyMaterialError("a secret is stored only in a vault; set a passphrase or use the keyring")
            vault = self._vault = Vault.create(self._files.vault, self._lock)

        def store(held: dict[str, bytes]) -> None:
            known = held.get(vault_entry(secret.epoch))
            if known is not None and known != secret.to_bytes():
                raise KeyMaterialError(f"{self._files.vault.name} holds another key of epoch {secret.epoch}")
            _remove_before(held, oldest)
            held[vault_entry(secret.epoch)] = secret.to_bytes()

        vault.change(store)
        self._version = vault.version

    def _ask_service(self, question: Callable[[KeyClient], Result]) -> Result:
        """Return the service's answer; the service must always show the certificate that it showed first."""
        path = self._files.service
        known = path.read_text(encoding="ascii", errors="replace").strip() if path.exists() else ""
        if path.exists() and not known:
            raise KeyMaterialError(f"{path.name} is empty; compare the service's fingerprint, then use --new-service")
        host, port = parse_address(self._service)
        client = KeyClient(host, port, files=self._files, study=self._study, known=known)
        answer = question(client)
        if not known:
            write_whole(path, client.known.encode() + b"\n")
        return answer


class CoordinatorKeys:
    """The coordinator's public parameters of epochs, from the key service or an imported file."""

    def __init__(
        self, files: PartyFiles, *, study: str, service: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = files
        self._study = study
        self._clock = clock
        self._client: KeyClient | None = None
        if service:
            host, port = parse_address(service)
            self._client = KeyClient(host, port, files=files, study=study)
        self._last: PublicParameters | None = None
        self._next_check = float("-inf")

    def parameters(self) -> PublicParameters:
        """Return the parameters of the current epoch; while the service is unreachable, the last known ones."""
        if self._last is None or self._clock() >= self._next_check:
            self._last = self._newest()
            self._next_check = self._clock() + _CACHE_SECONDS
        return self._last

    def import_parameters(self, parameters: PublicParameters) -> None:
        """Import the parameters of an epoch that was issued offline; an earlier epoch is refused."""
        if parameters.study != self._study:
            raise KeyMaterialError("these parameters belong to another study")
        noted = self._imported() if self._files.parameters.exists() else parameters
        if noted.epoch > parameters.epoch:
            raise KeyMaterialError(f"epoch {noted.epoch} was imported already; epoch {parameters.epoch} has ended")
        write_whole(self._files.parameters, parameters.to_json())

    def _newest(self) -> PublicParameters:
        if self._client is None:
            return self._imported()
        try:
            return self._client.parameters()
        except MessageError as error:
            if error.code in _FINAL or self._last is None:
                raise
            return self._last

    def _imported(self) -> PublicParameters:
        try:
            found = PublicParameters.from_json(self._files.parameters.read_bytes())
        except OSError:
            raise MessageError("no-keys", "no key was imported; import one with `wardround coordinator key`") from None
        if found.study != self._study:
            raise MessageError("study", "the imported parameters belong to another study")
        return found


def _remove_before(held: dict[str, bytes], oldest: int) -> None:
    for name in [name for name in held if SealingSecret.from_bytes(held[name]).epoch < oldest]:
        del held[name]
