"""What every request passes before the service sees it: host, origin, token, rate, content type and size.

An answer is counted here, and an error that nobody foresaw becomes a plain 500: no message, path or text reaches a log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wardround.console.access import requested_host
from wardround.serving.access import ServiceAccess
from wardround.serving.limits import Limits, RateLimit
from wardround.serving.metrics import Metrics
from wardround.serving.requests import RefusedError

__all__ = ["Gate", "refusal"]

_log = logging.getLogger(__name__)
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Gate:
    """Middleware that refuses what the service must not see, and reads a body within its limits."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: ServiceAccess,
        limits: Limits,
        metrics: Metrics,
        operations: Mapping[str, str],  # path: its name in the metrics
        public: frozenset[str],  # paths that need no token
    ) -> None:
        self._app, self._access, self._limits, self._metrics = app, access, limits, metrics
        self._operations, self._public = operations, public
        self._rate = RateLimit(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        started, status = time.perf_counter(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._admit(scope)
            body = await self._body(scope, receive)
            # With an `app` in its scope, the router raises for an unknown address instead of answering in plain text.
            await self._app({**scope, "app": self}, _replayed(body, receive), sent)
        except RefusedError as error:
            await refusal(error)(scope, receive, sent)
        except HTTPException as error:
            message = {404: "there is nothing at this address", 405: "this address has another method"}
            what = RefusedError(error.status_code, "not_available", message.get(error.status_code, "not available"))
            what.headers.update(error.headers or {})
            await refusal(what)(scope, receive, sent)
        except Exception as error:
            # The class alone: a message might quote the note.
            _log.warning("a request failed with %s", type(error).__name__)
            if not status:
                await refusal(RefusedError(500, "internal", "the service failed; its log has the class of the error"))(
                    scope, receive, sent
                )
        finally:
            operation = self._operations.get(scope["path"], "other")
            self._metrics.answered(operation, status, time.perf_counter() - started)

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = requested_host(scope["headers"])
        if host is None or not self._access.serves_host(host):
            raise RefusedError(421, "wrong_host", "open this service as localhost")
        origin = headers.get("origin")
        if origin is not None and (origin == "null" or urlsplit(origin).netloc != headers["host"]):
            raise RefusedError(403, "foreign_origin", "a page of another origin may not use this service")
        wait = self._rate.wait((scope.get("client") or ("",))[0])
        if wait:
            seconds = {"retry-after": str(int(wait) + 1)}
            raise RefusedError(429, "too_many_requests", "too many requests; wait and send again", headers=seconds)
        if scope["path"] not in self._public and not self._access.admits(headers.get("authorization", "")):
            challenge = {"www-authenticate": "Bearer"}
            raise RefusedError(401, "no_token", "send the header Authorization: Bearer TOKEN", headers=challenge)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Read the body before the service does: at most so many bytes, within some seconds."""
        if scope["method"] != "POST":
            return b""
        headers = Headers(scope=scope)
        # A form of another site can be posted without asking the browser's user; JSON cannot.
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RefusedError(415, "not_json", "send the header Content-Type: application/json")
        declared, most = headers.get("content-length", ""), self._limits.body_bytes
        too_large = RefusedError(413, "too_large", f"a body may have {most:,} bytes; send less at once")
        if len(declared) > 18 or (declared.isdecimal() and int(declared) > most):
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(400, "incomplete", "the body ended early")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RefusedError(408, "too_slow", "the body took too long to arrive") from None


def refusal(error: RefusedError) -> JSONResponse:
    """Return the answer to a request that is refused."""
    content = {"error": {"code": error.code, "message": error.message}}
    return JSONResponse(content, status_code=error.status, headers=error.headers)


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return the body that was read as a channel of its own."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return pending.pop() if pending else await receive()

    return received
