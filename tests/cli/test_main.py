from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.cli.running import Run
from wardround import __version__
from wardround.cli import main as entry
from wardround.cli.main import main
from wardround.errors import CorpusError, FederationError, UsageError, WardroundError

MARKER = "Mrs Quillwort has ninety-one finches"
COMMANDS = tuple(entry._COMMANDS)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wardround model presets` fails with a sentence of a note in the exception."""

    def fail(self: object, *_: object) -> None:
        raise LookupError(MARKER)

    monkeypatch.setattr("wardround.cli.model.Table.to_rich", fail)


def refusing(error: WardroundError) -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def refuse() -> None:
        raise error

    return app


def test_the_version(run: Run) -> None:
    ran = run("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"wardround {__version__}\n", "")


def test_help_lists_every_command(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    assert re.findall(r"^│ (\w+) ", ran.out, re.MULTILINE) == list(COMMANDS)
    assert {"demo", "data", "train", "evaluate", "predict", "model"} <= {*COMMANDS}


def test_without_a_command_there_is_help(run: Run) -> None:
    assert "Hospitals train one clinical text-mining model together" in run().said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Run, command: str) -> None:
    ran = run(command, "--help")
    assert ran.code == 0
    assert f"Usage: wardround {command} " in ran.out


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["tran"]])
def test_what_needs_no_model_imports_nothing_heavy(words: list[str]) -> None:
    script = f"""
import sys
from wardround.cli.main import main
try:
    main({words!r})
except SystemExit:
    pass
heavy = {{"torch", "transformers", "numpy", "matplotlib", "safetensors"}}
sys.exit(", ".join(heavy & set(sys.modules)) or 0)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_an_unknown_command_gets_a_suggestion(run: Run) -> None:
    ran = run("tran", "notes")
    assert (ran.code, ran.out) == (2, "")
    assert "No such command 'tran'. Did you mean 'train', 'transfer'?" in ran.err


def test_an_unknown_option_gets_a_suggestion(run: Run) -> None:
    ran = run("model", "presets", "--hepl")
    assert ran.code == 2
    assert "--help" in ran.err


def test_an_error_of_ours_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    error = CorpusError("has 1 columns", path=Path("/home/ward/private/notes.tsv"), line=3)
    monkeypatch.setattr(entry, "_assemble", lambda arguments: refusing(error))
    ran = run()
    assert (ran.code, ran.out, ran.err) == (2, "", "wardround: notes.tsv:3: has 1 columns\n")


def test_a_failed_round_shows_the_error_of_a_site_on_this_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    error = FederationError("east cannot resume from round 0: CorpusError")
    error.__cause__ = CorpusError("has 1\ncolumns", path=Path("/home/ward/private/notes.tsv"), line=3)
    monkeypatch.setattr(entry, "_assemble", lambda arguments: refusing(error))
    said = "wardround: east cannot resume from round 0: CorpusError – notes.tsv:3: has 1 columns\n"
    assert run().err == said
    error.__cause__ = LookupError(MARKER)  # which is none of ours, and might quote a note
    assert run().err == "wardround: east cannot resume from round 0: CorpusError\n"
    other = UsageError("too much")
    other.__cause__ = CorpusError("unasked")
    monkeypatch.setattr(entry, "_assemble", lambda arguments: refusing(other))
    assert run().err == "wardround: too much\n"


def test_the_name_of_a_file_cannot_speak_to_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    error = UsageError("\x1b]0;owned\x07 a\nb\u202e")
    monkeypatch.setattr(entry, "_assemble", lambda arguments: refusing(error))
    ran = run()
    assert (ran.code, ran.err) == (2, "wardround: ␛]0;owned␇ a b\ufffd\n")


@pytest.mark.usefixtures("failing")
def test_an_unforeseen_error_says_where_but_not_what(run: Run) -> None:
    ran = run("model", "presets")
    assert (ran.code, ran.out) == (3, "")
    said = r"wardround: unexpected LookupError at test_main\.py:\d+; set WARDROUND_DEBUG=1 for the traceback\n"
    assert re.fullmatch(said, ran.err)
    line = int(ran.err.split(":")[2].partition(";")[0])
    assert Path(__file__).read_text().splitlines()[line - 1].strip() == "raise LookupError(MARKER)"


@pytest.mark.usefixtures("failing")
def test_with_debug_an_unexpected_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARDROUND_DEBUG", "1")
    with pytest.raises(LookupError, match=MARKER):
        main(["model", "presets"])


def test_called_as_a_program() -> None:
    ended = subprocess.run([sys.executable, "-m", "wardround.cli.main", "--version"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, f"wardround {__version__}\n")
