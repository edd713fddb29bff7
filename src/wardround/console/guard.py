"""What stands before every page: the host's name, the login, and the headers that keep a browser from doing more."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wardround.console.access import Access

__all__ = ["OPEN_PATHS", "Guard"]

# For somebody who has yet to show the token.
OPEN_PATHS: Final = ("/login", "/static/console.css", "/static/icon.svg")
# A name or an IPv4 address, or an IPv6 address in brackets; then a port, or none.
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


class Guard:
    """Refuses requests by another name or without login; what passes is answered with strict headers."""

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
        host = _host_in(scope["headers"])
        if host is None or not self._access.serves_host(host):
            return PlainTextResponse("this console is reached as localhost", status_code=421)
        if scope["method"] not in ("GET", "HEAD") and scope["path"] != "/login":
            return PlainTextResponse("this console only shows", status_code=405)
        if not self._access.token or scope["path"] in OPEN_PATHS or self._is_known(headers):
            return None
        if "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", status_code=303)
        return PlainTextResponse("log in first", status_code=401)

    def _is_known(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._access.cookie)
        return found is not None and self._access.knows_session(found.value)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent


def _host_in(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The name in the one Host header, `::1` of `[::1]:8800`; None where it is anything but a host and a port.

    What a browser and this code would read differently is refused: several headers, a user before an `@`, a path, a
    port that is no number, a bracket that is not closed.
    """
    given = [value for name, value in headers if name.lower() == b"host"]
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    if found is None or (found["port"] is not None and not 1 <= int(found["port"]) <= 65535):
        return None
    if found["name"] is not None:
        return found["name"].decode("ascii")
    try:
        return str(ipaddress.IPv6Address(found["address"].decode("ascii")))
    except ValueError:
        return None
