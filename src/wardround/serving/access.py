"""Who may use the service: this machine, or other machines over TLS with a token, a client certificate, or both."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from pathlib import Path

from wardround.console.access import Certificate, is_loopback
from wardround.errors import UsageError

__all__ = ["ServiceAccess"]


@dataclass(frozen=True)
class ServiceAccess:
    """Where the service listens and what a client must show; an empty token means that none is needed."""

    host: str = "127.0.0.1"
    port: int = 8810
    certificate: Certificate | None = None
    clients: Path | None = None  # PEM certificates of the authorities whose client certificates are accepted
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.clients is not None and self.certificate is None:
            raise UsageError("client certificates need TLS: add --certificate and --key")
        if self.is_local:
            return
        if self.certificate is None:
            raise UsageError(
                f"{self.host} can be reached from other machines, so the service needs TLS: add --certificate and "
                "--key, or remove --host and let a proxy on this machine forward requests"
            )
        if not self.token and self.clients is None:
            raise UsageError(
                f"{self.host} can be reached from other machines, so clients must identify themselves: add "
                "--token-file, or --client-ca for client certificates"
            )

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def address(self) -> str:
        """Return the address of the page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}/"

    def admits(self, authorization: str) -> bool:
        """Return whether an Authorization header has the token, in constant time."""
        scheme, _, given = authorization.partition(" ")
        return not self.token or (
            scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode())
        )

    def serves_host(self, name: str) -> bool:
        """Return whether requests may use this host name; otherwise a web page could reach us by a name of its own."""
        return not self.is_local or is_loopback(name)
