"""`wardround ledger`: show or verify the record of what left a site."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.exit_codes import ExitCode
from wardround.cli.printing import Json, printed
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
    json: Json = False,
) -> None:
    """Show what left the site, when, and how many bytes, newest last; never the content."""
    verdict = verify_ledger(file)
    entries = deque(read_entries(file), maxlen=last)
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
        for entry in entries
    )
    total = f"{len(rows):,} of {verdict.entries:,} entries shown; {verdict.bytes_out:,} bytes left in all of them."
    with printed(json) as result:
        result.values(file=file.name, **asdict(verdict))
        result.table("shown", Table(file.name, _COLUMNS, rows, note=total), [asdict(entry) for entry in entries])


@app.command()
def verify(
    file: LedgerFile,
    head: Annotated[str, typer.Option(help="A head that was printed earlier and noted elsewhere.")] = "",
    json: Json = False,
) -> None:
    """Check that no line was altered, removed or added; exit with 1 if one was."""
    with printed(json) as result:
        try:
            verdict = verify_ledger(file, recorded_head=head)
        except LedgerError as error:
            result.line(str(error), file=file.name, intact=False, reason=str(error))
            raise typer.Exit(ExitCode.FINDINGS) from None
        entries = "1 entry" if verdict.entries == 1 else f"{verdict.entries:,} entries"
        torn = "; after them a line that was never finished, and its message never sent" if verdict.torn else ""
        line = f"{file.name}: intact, {entries}, {verdict.bytes_out:,} bytes left{torn}"
        result.line(f"{line}\nhead {verdict.head}", file=file.name, intact=True, **asdict(verdict))


def _moment(seconds: float) -> str:
    """Return a time in UTC, or a dash if a damaged ledger gives a time that does not exist."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "–"
