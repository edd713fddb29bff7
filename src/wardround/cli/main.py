"""`wardround`: the entry point; the module of a command is imported only when the command is called."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, TextIO

import typer

from wardround import __version__
from wardround.errors import FederationError, WardroundError
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
    "provision": "Create all kits of a networked study at once, for a rehearsal.",
    "coordinator": "Coordinate a networked study.",
    "site": "Take part in a networked study.",
    "keys": "Store and distribute the keys that encrypt updates.",
    "ledger": "Show or verify the record of what left a site.",
    "model": "Show a saved model, or the available networks.",
}

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
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            _assemble(arguments)(arguments, prog_name="wardround")
    except WardroundError as error:
        # If all sites are on this machine, a failed round includes the message of the first site that failed.
        cause = error.__cause__ if isinstance(error, FederationError) else None
        message = f"{error} – {cause}" if isinstance(cause, WardroundError) else str(error)
        # On one line, without control characters that a file name may contain.
        typer.echo("wardround: " + neutralise(message).replace("\n", " "), err=True)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("WARDROUND_DEBUG"):
            raise
        # Class and place of the error; its message is left out because it might quote a note.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        message = f"unexpected {type(error).__name__} at {place}; set WARDROUND_DEBUG=1 for the traceback"
        typer.echo(f"wardround: {message}", err=True)
        sys.exit(3)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning about an old name on one line, and any other as Python does."""
    if issubclass(category, OldNameWarning):
        typer.echo(f"wardround: warning: {neutralise(str(message))}", err=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _assemble(arguments: Sequence[str]) -> typer.Typer:
    """Return the program with all commands, of which only the called one is imported."""
    app = typer.Typer(
        help="Hospitals train one clinical text-mining model together; no note leaves its hospital.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(_root)
    called = next((argument for argument in arguments if not argument.startswith("-")), "")
    for name, line in _COMMANDS.items():
        if name != called:
            app.command(name, help=line)(_not_called)
            continue
        module = import_module(f"wardround.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, help=line)
        else:
            app.command(name)(module.command)
    return app


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"wardround {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _not_called() -> None:
    """Take the place of a command in `--help`; its module is imported only when it is called."""


if __name__ == "__main__":
    main()
