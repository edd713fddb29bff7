"""`wardround ledger`: show or verify the record of what left a site."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wardround.errors import LedgerError
from wardround.federation.ledger import read_entries
from wardround.federation.ledger import verify as verify_ledger
from wardround.reports.tables import Table

__all__ = ["app"]

app = typer.Typer(help="Show or verify the record of what left a site.", no_args_is_help=True)

LedgerFile = Annotated[Path, typer.Argument(help="A site's egress ledger.", exists=True, dir_okay=False)]

_COLUMNS = ("time (UTC)", "study", "round", "step", "mechanism", "bytes", "SHA-256", "refused with")


@app.command()
def show(
    file: LedgerFile,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest entries to show.")] = 50,
) -> None:
    """Show what left the site, when, and how many bytes, newest last; never the content."""
    verdict = verify_ledger(file)
    rows = tuple(
        (
            _moment(entry.time),
            entry.study,
            str(entry.round),  # a name, not a quantity: it gets no thousands separator
            entry.step,
            entry.mechanism,
            entry.bytes,
            entry.digest[:8],
            entry.refusal,
        )
        for entry in deque(read_entries(file), maxlen=last)
    )
    total = f"{len(rows):,} of {verdict.entries:,} entries shown; {verdict.bytes_out:,} bytes left in all of them."
    Console().print(Table(file.name, _COLUMNS, rows, note=total).to_rich())


@app.command()
def verify(
    file: LedgerFile,
    head: Annotated[str, typer.Option(help="A head that was printed earlier and noted elsewhere.")] = "",
) -> None:
    """Check that no line was altered, removed or added; exit with 1 if one was."""
    try:
        verdict = verify_ledger(file, recorded_head=head)
    except LedgerError as error:
        typer.echo(str(error))
        raise typer.Exit(1) from None
    entries = "1 entry" if verdict.entries == 1 else f"{verdict.entries:,} entries"
    torn = "; after them a line that was never finished, and its message never sent" if verdict.torn else ""
    typer.echo(f"{file.name}: intact, {entries}, {verdict.bytes_out:,} bytes left{torn}")
    typer.echo(f"head {verdict.head}")


def _moment(seconds: float) -> str:
    """Return a time in UTC, or a dash if a damaged ledger gives a time that does not exist."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "–"
