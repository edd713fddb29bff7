"""Access to the console: open on the machine itself; from elsewhere only with the token, over TLS."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wardround.errors import UsageError

__all__ = [
    "OPEN_PATHS",
    "Access",
    "Certificate",
    "Endpoint",
    "Guard",
    "is_loopback",
    "listen",
    "read_token",
    "requested_host",
]

_SHORTEST_TOKEN = 32  # characters
_SESSION = b"wardround console session 1"
# Served without a login.
OPEN_PATHS: Final = ("/login", "/static/console.css", "/static/icon.svg")
# A name or an IPv4 address, or an IPv6 address in brackets; then an optional port.
_HOST: Final = re.compile(
    rb"(?:(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)|\[(?P<address>[0-9A-Fa-f:.]{2,45})\])"
    rb"(?::(?P<port>[0-9]{1,5}))?"
)
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True)
class Certificate:
    """PEM files of a TLS certificate chain and its private key."""

    chain: Path
    key: Path


@dataclass(frozen=True)
class Access:
    """Where the console listens, and the token it requires; an empty token means no login."""

    host: str = "127.0.0.1"
    port: int = 8800
    certificate: Certificate | None = None
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.is_local:
            return
        if self.certificate is None:
            raise UsageError(
                f"{self.host} can be reached from other machines, so the console needs TLS: add --certificate and "
                "--key, or remove --host and use a tunnel"
            )
        assert self.token, "access from other machines needs a token"

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def address(self) -> str:
        """Return the address to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}/"

    @property
    def cookie(self) -> str:
        """Return the name of the cookie; with TLS, one that browsers accept from this host only."""
        return "__Host-wardround" if self.certificate else "wardround"

    def session(self) -> str:
        """Return the value of the cookie, derived from the token without revealing it."""
        return hmac.new(self.token.encode(), _SESSION, sha256).hexdigest()

    def is_token(self, text: str) -> bool:
        """Return whether the text is the token, in constant time."""
        return hmac.compare_digest(text.strip().encode(), self.token.encode())

    def is_session(self, cookie: str) -> bool:
        """Return whether the value of a cookie was derived from the token, in constant time."""
        return hmac.compare_digest(cookie.encode(), self.session().encode())

    def serves_host(self, name: str) -> bool:
        """Return whether requests may use this host name; otherwise a web page could reach us by a name of its own."""
        return not self.is_local or is_loopback(name)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address, without port and brackets, is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Endpoint(Protocol):
    """Where a server listens."""

    @property
    def host(self) -> str:
        """Return the address."""

    @property
    def port(self) -> int:
        """Return the port."""


def listen(access: Endpoint) -> socket.socket:
    """Open the port, or raise `UsageError` with the reason."""
    family = socket.AF_INET6 if ":" in access.host else socket.AF_INET
    try:
        return socket.create_server((access.host, access.port), family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]  # Python appends the address
        raise UsageError(
            f"cannot listen on {access.host}:{access.port} ({reason}); choose another --port or --host"
        ) from None


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner can read; write a new one if the file is missing."""
    try:
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
                stream.write(secrets.token_urlsafe(_SHORTEST_TOKEN) + "\n")
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise UsageError(f"other users can read {path.name}; run chmod 600 on it, or choose a new file")
        token = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        raise UsageError(
            f"--token-file {path}: there is no folder {path.parent}; create it, or choose another file"
        ) from None
    except OSError as error:
        raise UsageError(
            f"--token-file {path}: {error.strerror}; let this user read and write there, or choose another file"
        ) from None
    if len(token) < _SHORTEST_TOKEN:
        raise UsageError(f"{path.name} contains no token of {_SHORTEST_TOKEN} characters; choose a new file")
    return token


class Guard:
    """Middleware: refuses requests for another host or without a login, and adds strict headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = requested_host(scope["headers"])
        if host is None or not self._access.serves_host(host):
            return PlainTextResponse("open this console as localhost", status_code=421)
        if scope["method"] not in ("GET", "HEAD") and scope["path"] != "/login":
            return PlainTextResponse("this console is read-only", status_code=405)
        if not self._access.token or scope["path"] in OPEN_PATHS or self._is_logged_in(headers):
            return None
        if "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", status_code=303)
        return PlainTextResponse("log in first", status_code=401)

    def _is_logged_in(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._access.cookie)
        return found is not None and self._access.is_session(found.value)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent


def requested_host(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the name in the Host header, e.g. `::1` for `[::1]:8800`; None if it is not a host with optional port.

    Anything that a browser and this code might read differently is refused: several headers, a user before an `@`, a
    path, a port that is not a number, an unclosed bracket.
    """
    values = [value for name, value in headers if name.lower() == b"host"]
    found = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    if found is None or (found["port"] is not None and not 1 <= int(found["port"]) <= 65535):
        return None
    if found["name"] is not None:
        return found["name"].decode("ascii")
    try:
        return str(ipaddress.IPv6Address(found["address"].decode("ascii")))
    except ValueError:
        return None
