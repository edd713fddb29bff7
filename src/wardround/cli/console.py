"""`wardround console`: watch runs in a browser."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from wardround.errors import UsageError

__all__ = ["command"]

_TOKEN_BYTES = 32


def command(
    folder: Annotated[
        Path, typer.Argument(help="A folder with runs in it, one run, or a kit.", exists=True, file_okay=False)
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; any but the local one needs TLS.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.", min=1, max=65535)] = 8800,
    site: Annotated[bool, typer.Option("--site", help="Show the view of a site: what left it.")] = False,
    certificate: Annotated[
        Path | None, typer.Option(help="A TLS certificate chain, PEM.", exists=True, dir_okay=False)
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key, PEM.", exists=True, dir_okay=False)] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the login token; created if it does not exist.", dir_okay=False)
    ] = None,
) -> None:
    """Serve a page that shows runs as they happen; Ctrl-C stops the page and affects no run."""
    try:
        from wardround.console.access import Access, Certificate, is_loopback, listen, read_token
        from wardround.console.app import console_app, serve
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        raise UsageError(f"the console needs {missing}: pip install 'wardround[console]'") from None
    from wardround.studies.watched_runs import runs_in

    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key need each other; give both")
    tls = Certificate(certificate, key) if certificate and key else None
    token = read_token(token_file) if token_file else "" if is_loopback(host) else secrets.token_urlsafe(_TOKEN_BYTES)
    access = Access(host, port, tls, token)
    app = console_app(runs_in(folder, site=site), access)
    with listen(access) as listening:
        typer.echo(f"console  {access.address}")
        if token:
            where = f"in {token_file.name}" if token_file else token
            typer.echo(f"token    {where}")
        with suppress(KeyboardInterrupt):
            serve(app, access, listening)
