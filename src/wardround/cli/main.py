"""`wardround`: the entry point; the module of a command is imported only when the command is called."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from wardround import __version__
from wardround.cli.exit_codes import ExitCode
from wardround.cli.printing import Verbosity, is_quiet, tables_as_csv, verbosity
from wardround.errors import CorpusWarning, FederationError, UsageError, WardroundError
from wardround.process_hardening import forbid_core_dumps
from wardround.settings import OldNameWarning
from wardround.text.plain_text import neutralise

__all__ = ["main"]

# The line that `--help` shows, so that help imports nothing heavy. Each command is a module of the same name in
# `wardround.cli` with either `command`, a function, or `app`, a group of commands. A new command is a file and a line.
_COMMANDS = {
    "demo": "Train and score on the built-in hospitals.",
    "data": "Check, convert, count and split corpora; write the built-in hospitals.",
    "study": "Write, show and check study files.",
    "run": "Run a study with every site on this machine.",
    "report": "Write a report about one run, or compare several.",
    "sweep": "Run many studies from one file and compare them in one table.",
    "paper": "Show the papers' tables, measured and published, or measure them again.",
    "console": "Watch runs in a browser.",
    "train": "Train a tagger at one site.",
    "transfer": "Train a tagger that starts from the layers of another.",
    "evaluate": "Score a model against annotated notes.",
    "predict": "Find entities in notes.",
    "redact": "Hide what identifies people in notes.",
    "serve": "Serve a model over HTTP.",
    "provision": "Create all kits of a networked study at once, for a rehearsal.",
    "coordinator": "Coordinate a networked study.",
    "site": "Take part in a networked study.",
    "keys": "Store and distribute the keys that encrypt updates.",
    "audit": "Measure what updates and models reveal about notes.",
    "ledger": "Show or verify the record of what left a site.",
    "model": "Show a saved model, or the available networks.",
}

_LOGGER = logging.getLogger("wardround")
# Turn off the libraries' progress bars and warnings; the variables are read when the libraries are imported.
_QUIET = {"TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; print an error of Wardround as one line, and never print a note in an error.

    Without `arguments`, core dumps are forbidden before any note is read; a caller that passes arguments must do so
    itself.
    """
    if arguments is None:
        forbid_core_dumps()
        arguments = sys.argv[1:]
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    before, as_csv = verbosity.set(Verbosity.NORMAL), tables_as_csv.set(False)
    try:
        with warnings.catch_warnings(), _log_messages():
            warnings.showwarning = _show_warning
            warnings.simplefilter("always", CorpusWarning)
            _assemble()(arguments, prog_name="wardround")
    except WardroundError as error:
        # If all sites are on this machine, a failed round includes the message of the first site that failed.
        cause = error.__cause__ if isinstance(error, FederationError) else None
        message = f"{error} – {cause}" if isinstance(cause, WardroundError) else str(error)
        # On one line, without control characters that a file name may contain.
        typer.echo("wardround: " + neutralise(message).replace("\n", " "), err=True)
        _show_places(error)
        sys.exit(ExitCode.REFUSED)
    except Exception as error:
        if os.environ.get("WARDROUND_DEBUG"):
            raise
        # Class and place of the error; its message is left out because it might quote a note.
        message = f"unexpected {type(error).__name__} at {_places(error)[-1]}; set WARDROUND_DEBUG=1 for the traceback"
        typer.echo(f"wardround: {message}", err=True)
        _show_places(error)
        sys.exit(ExitCode.UNEXPECTED)
    finally:
        verbosity.reset(before)
        tables_as_csv.reset(as_csv)


def _places(error: BaseException) -> list[str]:
    """Return `file:line` of each call that led to an error; no message and no source line, which might quote a note."""
    return [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]


def _show_places(error: BaseException) -> None:
    """Under `--verbose`, print where an error and its causes were raised, the outermost call first."""
    found: BaseException | None = error
    while found is not None and verbosity.get() is Verbosity.VERBOSE:
        typer.echo(f"  {type(found).__name__}: {' → '.join(_places(found))}", err=True)
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


class _WithoutTracebacks(logging.Formatter):
    """Formats a log record without its exception, whose message might quote a note."""

    def formatException(self, ei: object) -> str:
        """Return nothing."""
        return ""


@contextmanager
def _log_messages() -> Iterator[None]:
    """Print Wardround's own log messages on standard error: warnings, none under `--quiet`, and INFO if verbose.

    Messages of other libraries are not printed, because nobody has checked that they quote no note.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_WithoutTracebacks("wardround: %(message)s"))
    handler.addFilter(_is_shown)
    before, silent = _LOGGER.level, logging.NullHandler()  # without a handler, Python prints warnings of any library
    _LOGGER.addHandler(handler)
    logging.getLogger().addHandler(silent)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(silent)
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(before)


def _is_shown(record: logging.LogRecord) -> bool:
    return verbosity.get() is Verbosity.VERBOSE or (record.levelno >= logging.WARNING and not is_quiet())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of our own on one line, and any other as Python does; none under `--quiet`."""
    if is_quiet():
        return
    if issubclass(category, (OldNameWarning, CorpusWarning)):
        typer.echo(f"wardround: warning: {neutralise(str(message))}", err=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


class _LazyGroup(TyperGroup):
    """The root command: lists every command, and imports the module of the one that is called or completed."""

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:  # type: ignore[override]
        """Return the called command, imported."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, _imported(name) if name in _COMMANDS else stub, rest


def _imported(name: str) -> Any:
    """Import the module of a command and return the command."""
    module = import_module(f"wardround.cli.{name}")
    alone = typer.Typer(add_completion=False)
    alone.callback()(_root)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name, help=_COMMANDS[name])
    else:
        alone.command(name)(module.command)
    return typer.main.get_group(alone).commands[name]


def _assemble() -> typer.Typer:
    """Return the program with all commands, of which none is imported yet."""
    app = typer.Typer(
        help="Hospitals train one clinical text-mining model together; no note leaves its hospital.",
        cls=_LazyGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name, line in _COMMANDS.items():
        app.command(name, help=line)(_not_called)
    return app


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"wardround {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the result and errors: no progress, no warnings.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print what happens, and the places of an error; never a note.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print tables as CSV, with unrounded numbers.")] = False,
) -> None:
    tables_as_csv.set(csv)
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other; give one of them")
    if quiet:
        verbosity.set(Verbosity.QUIET)
    if verbose:
        verbosity.set(Verbosity.VERBOSE)
        _LOGGER.setLevel(logging.INFO)
        _LOGGER.info("version %s", __version__)


def _not_called() -> None:
    """Take the place of a command in `--help`; its module is imported only when it is called."""


if __name__ == "__main__":
    main()
