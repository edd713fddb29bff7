"""`wardround ledger`: show or verify the record of what left a site."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wardround.errors import LedgerError
from wardround.federation.ledger import Entry, Verdict, read_entries
from wardround.federation.ledger import verify as verify_ledger
from wardround.reports.tables import Row, Table

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
    rows = tuple(_row(entry) for entry in deque(read_entries(file), maxlen=last))
    total = f"{len(rows):,} of {verdict.entries:,} entries shown; {verdict.bytes_out:,} bytes left in all of them."
    Console().print(Table(file.name, _COLUMNS, rows, note=total).to_rich())


@app.command()
def verify(
    file: LedgerFile,
    head: Annotated[str, typer.Option(help="A head that was printed earlier and noted elsewhere.")] = "",
) -> None:
    """Check that no line was altered, removed or added; exit with 1 if one was."""
    try:
        verdict = verify_ledger(file, noted=head)
    except LedgerError as error:
        typer.echo(str(error))
        raise typer.Exit(1) from None
    typer.echo(f"{file.name}: {_said(verdict)}")
    typer.echo(f"head {verdict.head}")


def _said(verdict: Verdict) -> str:
    torn = "; after them a line that was never finished, and its message never sent" if verdict.torn else ""
    entries = "1 entry" if verdict.entries == 1 else f"{verdict.entries:,} entries"
    return f"intact, {entries}, {verdict.bytes_out:,} bytes left{torn}"


def _row(entry: Entry) -> Row:
    number = str(entry.round)  # a name, not a quantity: no comma in it
    row = _moment(entry.time), entry.study, number, entry.step, entry.mechanism, entry.bytes, entry.digest[:8]
    return *row, entry.refusal


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "–"
