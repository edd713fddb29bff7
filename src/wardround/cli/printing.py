"""What commands print: a result on standard output, as text or as one JSON object; all else on standard error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from wardround.text.plain_text import neutralise

if TYPE_CHECKING:
    from wardround.reports.tables import Table

__all__ = [
    "Json",
    "Result",
    "Verbosity",
    "is_quiet",
    "notice",
    "printed",
    "progress_console",
    "tables_as_csv",
    "verbosity",
]

Json = Annotated[
    bool,
    typer.Option("--json", help="Print the result as one JSON object, with unrounded numbers.", show_default=False),
]


class Verbosity(Enum):
    """How much a command prints in addition to its result."""

    QUIET = "quiet"  # errors
    NORMAL = "normal"  # also progress, warnings and notices
    VERBOSE = "verbose"  # also log messages and the places of a traceback


tables_as_csv: ContextVar[bool] = ContextVar("tables_as_csv", default=False)  # set by the root option --csv
verbosity: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity.NORMAL)  # set by the root options


def is_quiet() -> bool:
    """Return whether only results and errors are printed."""
    return verbosity.get() is Verbosity.QUIET


def progress_console() -> Console:
    """Return the console for progress: standard error, or nothing under `--quiet`."""
    return Console(stderr=True, quiet=is_quiet())


def notice(text: str) -> None:
    """Print a line that is neither result nor error on standard error, unless `--quiet` is set."""
    if not is_quiet():
        typer.echo(neutralise(text), err=True)


class Result:
    """The result of a command: printed line by line for people, or collected for one JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._values: dict[str, Any] = {}

    def line(self, text: str = "", /, *, bold: bool = False, **values: Any) -> None:
        """Print a line for people; the JSON object contains `values` instead."""
        self.values(**values)
        if not self.as_json:
            typer.secho(text, bold=bold)

    def item(self, text: str, /, **values: Any) -> None:
        """Print a line for people; in the JSON object each value is appended to the list of its name."""
        for name, value in values.items():
            self._values.setdefault(name, []).append(value)
        if not self.as_json:
            typer.echo(text)

    def table(self, name: str, table: Table, data: Any = None, *, console: Console | None = None) -> None:
        """Print a table; the JSON object contains `data` under `name`, or the rows of the table with all digits."""
        self.values(**{name: table.to_records() if data is None else data})
        if not self.as_json:
            _print_tables(console or Console(), table)

    def show(self, *tables: Table) -> None:
        """Print tables for people only, where the JSON object has the same figures in another form."""
        if not self.as_json:
            _print_tables(Console(), *tables)

    def values(self, **values: Any) -> None:
        """Add values to the JSON object only."""
        self._values |= values

    def declare(self, *names: str) -> None:
        """Add empty lists to the JSON object, for `item`, so that it has the same names whatever was found."""
        for name in names:
            self._values.setdefault(name, [])

    def finish(self) -> None:
        """Print the JSON object."""
        if self.as_json:
            typer.echo(json.dumps(_plain(self._values), allow_nan=False))


def _print_tables(console: Console, *tables: Table) -> None:
    """Print tables within the width of the terminal, or as CSV, with an empty line between two."""
    if tables_as_csv.get():
        typer.echo("\n".join(table.to_csv() for table in tables), nl=False)
    else:
        console.print(*(part.to_rich() for table in tables for part in table.in_width(console.width)))


@contextmanager
def printed(as_json: bool) -> Iterator[Result]:
    """Return what a command prints its result with; the JSON object is printed at the end, and not after an error.

    A command that reports findings leaves the context by `typer.Exit`, which is no error.
    """
    result = Result(as_json=as_json)
    try:
        yield result
    except typer.Exit:
        result.finish()
        raise
    result.finish()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: paths as text, tuples as lists, and null for a number that is not finite."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
