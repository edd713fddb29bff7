"""`wardround`: the entry point; a command's module is imported only when it is called."""

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
from wardround.reports.plain_text import neutralise
from wardround.settings import OldNameWarning

__all__ = ["main"]

# The line `--help` shows, so that help imports nothing heavy. Modules lie in `wardround.cli` under the same name;
# each has either `command`, a function, or `app`, with commands below it.
_COMMANDS = {
    "demo": "Train and score on the built-in hospitals.",
    "data": "Check, convert, count and split corpora; write the built-in hospitals.",
    "study": "Write, look at and check study files.",
    "run": "Run a study with every site on this machine.",
    "report": "Explain a run on one page, or compare several.",
    "sweep": "Run many studies from one file, side by side, into one table.",
    "paper": "Show the tables of the papers, measured beside published, or measure them again.",
    "console": "Watch runs in a browser.",
    "train": "Train a tagger at one site.",
    "transfer": "Train a tagger that begins from the layers of another.",
    "evaluate": "Score a model against annotated notes.",
    "predict": "Find entities in notes.",
    "redact": "Hide what identifies people in notes.",
    "provision": "Make all kits of a networked study at once, for a rehearsal.",
    "coordinator": "Lead a networked study.",
    "site": "Take part in a networked study.",
    "keys": "Keep and give out the keys under which updates are sealed.",
    "ledger": "Show or verify the record of what left a site.",
    "model": "Look at a saved model, or at the named networks.",
}

# Our own bars and warnings are enough; these are read when the libraries are first imported.
_QUIET = {"TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error of ours is one line, and no error ever prints a note.

    Without `arguments` the process is ours, and is closed before it reads a note; else it is the caller's to close.
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
        typer.echo(f"wardround: {_line(error)}", err=True)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("WARDROUND_DEBUG"):
            raise
        typer.echo(f"wardround: {_where(error)}", err=True)
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


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wardround {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


def _not_called() -> None:
    """Stands in the list of commands; the real one is imported when it is called."""


def _line(error: WardroundError) -> str:
    """The message on one line; the name of a file, which may come from anybody, cannot speak to the terminal.

    Where all sites are on this machine, a round that failed brings along what the first of them said.
    """
    cause = error.__cause__ if isinstance(error, FederationError) else None
    said = f"{error} – {cause}" if isinstance(cause, WardroundError) else str(error)
    return " ".join(neutralise(said).split("\n"))


def _where(error: Exception) -> str:
    """Class and place of an unforeseen error; its message is withheld, for it might quote a note."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return f"unforeseen {type(error).__name__} at {place}; set WARDROUND_DEBUG=1 to see it whole"


if __name__ == "__main__":
    main()
