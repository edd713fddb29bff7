"""The key service: a party separate from the coordinator that sends sealing keys to the sites of a study.

HTTP over mutual TLS; the certificate names the caller. Each request is a connection with one POST, whose body and
answer are encoded messages.

    {"ask": "parameters", "study": …}              all parties of the study: the public parameters of the current epoch
    {"ask": "secret", "study": …, "epoch": …}      sites only: the secret of that epoch

A refusal is a code. Each request is logged on disk before it is answered. Requests of a party that asks too often are
refused without a log line and without reading the vault. Rotations, revocations and admissions take effect at the next
request, because the vault is read for each request; no secret stays in memory.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Collection
from types import TracebackType

from wardround.errors import KeyMaterialError, MessageError, WardroundError
from wardround.federation.federation import SiteId, code_of
from wardround.federation.message import Message, decode, encode
from wardround.secure_aggregation.keys.connections import Connections
from wardround.secure_aggregation.keys.key_log import KeyLog
from wardround.secure_aggregation.keys.limits import Limits, Party
from wardround.secure_aggregation.keys.peers import PartyFiles, Peer, tls_server
from wardround.secure_aggregation.keys.recovery import check_not_older, logged_state
from wardround.secure_aggregation.keys.service_state import Epochs, KeyState

__all__ = ["COORDINATOR", "SERVICE", "KeyRequestHandler", "KeyService"]

COORDINATOR = "coordinator"
SERVICE = "keys"  # the name in the service's certificate

_LONGEST_NAME = 64  # characters of a name that are logged
_LOOPBACK = ("localhost", "127.0.0.1")


class KeyRequestHandler:
    """Decides which party gets which key, without the network.

    Raise a `KeyMaterialError` if the vault lacks something that the log records: it was restored from a backup.
    """

    def __init__(self, epochs: Epochs, log: KeyLog, *, study: str, sites: Collection[SiteId]) -> None:
        self._epochs = epochs
        self._log = log
        self._study = study
        self._sites = frozenset(sites)
        logged = logged_state(log.path, study)  # first, because another process may change both
        self._seen = epochs.state()  # replaced at each request
        check_not_older(self._seen, logged)

    def answer(self, request: bytes, peer: Peer, address: str = "") -> bytes:
        """Return the answer to a request, or a code; it is logged before it is returned."""
        asked, epoch = "nothing", 0
        try:
            message = decode(request)
            asked, epoch = _parse_request(message)
            answer, outcome = self._answer(message, peer, asked, epoch), "given"
        except (WardroundError, OSError) as error:
            outcome = code_of(error)
            answer = Message({"code": outcome})
        try:
            self._write(asked, outcome, peer, address, epoch)
        except KeyMaterialError:
            answer = Message({"code": "log"})
        return encode(answer)

    def party(self, peer: Peer | None) -> Party:
        """Return whose slots and requests a peer uses, judged without the vault."""
        name = peer.name if peer else ""
        if peer and name in self._sites:
            return Party(name, self._seen.pinned.get(name) == peer.fingerprint)
        return Party(name, True) if name in (COORDINATOR, SERVICE) else Party("", False)

    def busy(self) -> bytes:
        """Return the answer to a party that asks too often."""
        return encode(Message({"code": code_of(MessageError("busy", "the party asks too often"))}))

    def note(self, outcome: str, address: str, peer: Peer | None) -> None:
        """Log a refused caller: no certificate of the study in time, or too many connections or requests."""
        self._write("nothing", outcome, peer or Peer("", ""), address, 0)

    def _write(self, asked: str, outcome: str, peer: Peer, address: str, epoch: int) -> None:
        who = peer.name[:_LONGEST_NAME]
        self._log.write(asked, outcome, who=who, certificate=peer.fingerprint, address=address, epoch=epoch)

    def _answer(self, message: Message, peer: Peer, asked: str, epoch: int) -> Message:
        if message.value("study", str) != self._study:
            raise MessageError("study", "the request belongs to another study")
        if peer.name not in (*self._sites, COORDINATOR, SERVICE):
            raise MessageError("unknown", "the study has no party of that name")
        if peer.name in self._state().revoked:
            raise MessageError("revoked", "the site was revoked")
        if asked == "parameters":
            return Message({"parameters": self._epochs.parameters().to_values()})
        if peer.name not in self._sites:
            raise MessageError("not-a-site", "secrets are for sites")
        secret = self._epochs.issue(peer, epoch)
        self._seen = self._seen.after_issue(peer, epoch)
        return Message(blobs={"secret": secret.to_bytes()})

    def _state(self) -> KeyState:
        """Return the present state; raise if it lacks something that was seen before: it was restored from a backup."""
        before, state = self._seen, self._epochs.state()
        if state.current < before.current or not before.pinned.keys() <= state.pinned.keys():
            raise KeyMaterialError("epochs.vault was replaced by an older one; start the service again")
        self._seen = state
        return state


class KeyService:
    """Serves key requests on the network from `start` to `close`."""

    def __init__(
        self, handler: KeyRequestHandler, files: PartyFiles, *, host: str, port: int, limits: Limits | None = None
    ) -> None:
        place = "127.0.0.1" if host in _LOOPBACK else "0.0.0.0"  # noqa: S104 - sites come from outside
        tls = tls_server(files)
        # No renegotiation, no session tickets, and certificates are encrypted in transit.
        tls.minimum_version = ssl.TLSVersion.TLSv1_3
        tls.num_tickets = 0
        try:
            listener = socket.create_server((place, port))
        except OSError as error:
            raise KeyMaterialError(
                f"port {port} cannot be listened on ({error.strerror}); is another service running?"
            ) from None
        self.port = int(listener.getsockname()[1])
        self._connections = Connections(listener, tls, handler, limits or Limits())

    def __enter__(self) -> KeyService:
        self._connections.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.close()


def _parse_request(message: Message) -> tuple[str, int]:
    asked = message.value("ask", str)
    if asked not in ("parameters", "secret"):
        raise MessageError("request", "there is no such request")
    return asked, message.value("epoch", int) if asked == "secret" else 0
