"""`wardround serve`: a model as a REST service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Device, ModelFolder
from wardround.cli.printing import notice
from wardround.errors import UsageError

__all__ = ["command"]


Host = Annotated[
    str, typer.Option(help="Address to listen on; any but the local one needs TLS, and a token or --client-ca.")
]
Port = Annotated[int, typer.Option(help="The port.", min=1, max=65535)]
Chain = Annotated[Path | None, typer.Option(help="A TLS certificate chain, PEM.", exists=True, dir_okay=False)]
Key = Annotated[Path | None, typer.Option(help="Its private key, PEM.", exists=True, dir_okay=False)]
ClientAuthorities = Annotated[
    Path | None,
    typer.Option(
        help="Certificates of authorities, PEM; a client must show a certificate of one of them.",
        exists=True,
        dir_okay=False,
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with the token of clients; created if it does not exist.", dir_okay=False)
]
MostBytes = Annotated[int, typer.Option(help="Bytes of one request.", min=1)]
MostCharacters = Annotated[int, typer.Option(help="Characters of one text.", min=1)]
MostDocuments = Annotated[int, typer.Option(help="Texts in one request.", min=1)]
Rate = Annotated[int, typer.Option(help="Requests per minute from one address.", min=1)]
Language = Annotated[str, typer.Option(help="Redaction: language of patterns and surrogates.")]
Threshold = Annotated[
    float | None,
    typer.Option(help="Redaction: also hide words that are identifying with a probability above this."),
]
SeedFile = Annotated[
    Path | None,
    typer.Option(help="Redaction: file with the key of surrogates, created if it is missing.", dir_okay=False),
]


def command(
    model: ModelFolder,
    host: Host = "127.0.0.1",
    port: Port = 8810,
    certificate: Chain = None,
    key: Key = None,
    client_ca: ClientAuthorities = None,
    token_file: TokenFile = None,
    max_body: MostBytes = 2_000_000,
    max_text: MostCharacters = 100_000,
    max_documents: MostDocuments = 256,
    rate: Rate = 6_000,
    language: Language = "en",
    threshold: Threshold = None,
    seed_file: SeedFile = None,
    device: Device = "auto",
) -> None:
    """Serve a model over HTTP: predictions, redaction, card, health, metrics, and a page to try a text.

    Ctrl-C stops the service. Texts are neither stored nor logged.
    """
    try:
        from wardround.api.served_model import open_service
        from wardround.console.access import Certificate, read_token
        from wardround.serving.access import ServiceAccess
        from wardround.serving.limits import Limits
        from wardround.serving.service import serve
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        raise UsageError(f"the service needs {missing}: pip install 'wardround[serve]'") from None

    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key need each other; give both")
    access = ServiceAccess(
        host,
        port,
        certificate=Certificate(certificate, key) if certificate and key else None,
        clients=client_ca,
        token="" if token_file is None else read_token(token_file),
    )
    limits = Limits(body_bytes=max_body, text_characters=max_text, documents=max_documents, rate=rate)
    app = open_service(
        model,
        access=access,
        limits=limits,
        language=language,
        threshold=threshold,
        seed_file=seed_file,
        device=device,
    )
    if token_file is not None:
        notice(f"token    in {token_file.name}")
    serve(app, access, announce=lambda: typer.echo(f"service  {access.address}"))
