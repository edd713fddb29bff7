"""Who may look: on the machine itself everybody there, from elsewhere whoever has the token, over TLS."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import stat
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from wardround.errors import UsageError

__all__ = ["Access", "Certificate", "is_loopback", "read_token"]

_SHORTEST_TOKEN = 32  # characters
_SESSION = b"wardround console session 1"


@dataclass(frozen=True)
class Certificate:
    """Files of a TLS certificate chain and its private key, in PEM."""

    chain: Path
    key: Path


@dataclass(frozen=True)
class Access:
    """Where the console listens, and what it asks of a browser; an empty token asks for none."""

    host: str = "127.0.0.1"
    port: int = 8800
    certificate: Certificate | None = None
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.is_local:
            return
        if self.certificate is None:
            raise UsageError(
                f"{self.host} can be reached from other machines; name --certificate and --key, for what is shown must "
                "not travel unencrypted, or leave --host out and use a tunnel"
            )
        assert self.token, "from elsewhere nobody looks without a token"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}/"

    @property
    def cookie(self) -> str:
        """The name of the cookie; with TLS one that a browser takes from this very host only."""
        return "__Host-wardround" if self.certificate else "wardround"

    def session(self) -> str:
        """What the cookie holds: made from the token, which it does not tell."""
        return hmac.new(self.token.encode(), _SESSION, sha256).hexdigest()

    def knows_token(self, given: str) -> bool:
        """Whether somebody has the token; takes as long for a near one as for any other."""
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def knows_session(self, given: str) -> bool:
        """Whether a cookie is of somebody who had the token; the same holds."""
        return hmac.compare_digest(given.encode(), self.session().encode())

    def serves_host(self, name: str) -> bool:
        """Whether a request for this host is for us; one page of the web could else look in by a name of its own."""
        return not self.is_local or is_loopback(name)


def is_loopback(host: str) -> bool:
    """Whether a host's name or address, without port and brackets, is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """The token in a file that only its owner can read; where there is none, a new one is written."""
    try:
        return _token_in(path)
    except FileNotFoundError:
        raise UsageError(
            f"--token-file {path}: there is no folder {path.parent}; make it, or name a file elsewhere"
        ) from None
    except OSError as error:
        raise UsageError(
            f"--token-file {path}: {error.strerror}; let this user read and write there, or name a file elsewhere"
        ) from None


def _token_in(path: Path) -> str:
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
            stream.write(secrets.token_urlsafe(_SHORTEST_TOKEN) + "\n")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise UsageError(f"others can read {path.name}; take that away with chmod 600, or name a new file")
    token = path.read_text(encoding="ascii", errors="replace").strip()
    if len(token) < _SHORTEST_TOKEN:
        raise UsageError(f"{path.name} holds no token of {_SHORTEST_TOKEN} characters; name a new file for one")
    return token
