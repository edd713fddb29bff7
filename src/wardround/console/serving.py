"""The console as a running server."""

from __future__ import annotations

import socket

import uvicorn
from starlette.types import ASGIApp

from wardround.console.access import Access
from wardround.errors import UsageError

__all__ = ["listen", "serve"]

_LAST_WORDS_SECONDS = 1  # for open streams, which never end by themselves
_MOST_CONNECTIONS = 200


def listen(access: Access) -> socket.socket:
    """Take the port, or say why it cannot be had."""
    family = socket.AF_INET6 if ":" in access.host else socket.AF_INET
    try:
        return socket.create_server((access.host, access.port), family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]  # Python adds the address once more
        raise UsageError(
            f"cannot listen on {access.host}:{access.port} ({reason}); name another by --port or --host"
        ) from None


def serve(app: ASGIApp, access: Access, listening: socket.socket) -> None:
    """Serve until Ctrl-C; nothing that is asked for is logged."""
    certificate = access.certificate
    try:
        config = uvicorn.Config(
            app,
            ssl_certfile=None if certificate is None else str(certificate.chain),
            ssl_keyfile=None if certificate is None else str(certificate.key),
            ws="none",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_LAST_WORDS_SECONDS,
        )
        config.load()
    except OSError as error:  # of which a fault in TLS is one
        raise UsageError(f"--certificate and --key cannot be used together ({type(error).__name__})") from None
    uvicorn.Server(config).run(sockets=[listening])
