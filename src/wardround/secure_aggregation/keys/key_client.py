"""How a party asks the key service; errors are `MessageError`s whose code may be sent to other parties.

keys-unreachable     no connection, or none that lasted
keys-certificate     the other end is not this study's key service, or another than before
keys-answer          the answer cannot be used
revoked, certificate, not-a-site, unknown, epoch, study, busy, log, …    the service's own refusals
"""

from __future__ import annotations

import ssl
from http.client import HTTPException, HTTPSConnection

from wardround.errors import MessageError
from wardround.federation.federation import safe_code
from wardround.federation.message import Message, Value, decode, encode
from wardround.secure_aggregation.keys.key_service import SERVICE
from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret
from wardround.secure_aggregation.keys.peers import PartyFiles, peer_of, tls_client

__all__ = ["KeyClient", "address"]

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


def address(place: str) -> tuple[str, int]:
    """Return host and port of an address `host:port`."""
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise MessageError("keys-unreachable", "the kit does not say where the key service is")
    return host, int(port)
