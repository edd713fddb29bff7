from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from tests.cli.running import TEST, Run, train
from wardround import __version__
from wardround.cli import main as entry
from wardround.cli.main import main
from wardround.cli.printing import Verbosity, verbosity
from wardround.corpora.jsonl import Jsonl
from wardround.errors import CorpusError, FederationError, UsageError, WardroundError
from wardround.text.document import Document

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


def imported_by(words: Sequence[str | Path], **environment: str) -> set[str]:
    """Return the modules that a command has imported in a process of its own."""
    script = f"""
import sys
from wardround.cli.main import main
try:
    main({[str(word) for word in words]!r})
except SystemExit as ended:
    assert not ended.code or "tran" in sys.argv
print("modules", *sys.modules)
"""
    command = [sys.executable, "-c", script, *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.splitlines()[-1].split()) - {"modules"}


HEAVY = {"torch", "transformers", "matplotlib", "safetensors"}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["tran"]])
def test_what_needs_no_command_imports_nothing_heavy(words: list[str]) -> None:
    assert not imported_by(words) & {*HEAVY, "numpy"}


@pytest.mark.parametrize(
    "words",
    [
        ["model", "presets"],
        ["study", "algorithms"],
        ["study", "new", "mine.toml"],
        ["data", "check", "notes.jsonl", "--format", "jsonl"],
        ["data", "stats", "notes.jsonl", "--format", "jsonl"],
        ["data", "convert", "notes.jsonl", "notes", "--from", "jsonl", "--to", "brat"],
        *([name, "--help"] for name in ("model", "study", "data", "site", "coordinator", "console")),
    ],
    ids=" ".join,
)
def test_a_command_that_runs_no_network_does_not_import_torch(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Jsonl().write([Document("n1", "Aspirin caused a rash.")], tmp_path / "notes.jsonl")
    assert not imported_by(words) & HEAVY


def test_a_command_that_loads_a_model_imports_torch(trained: Path) -> None:
    assert "torch" in imported_by(["model", "show", trained / "model"])


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
    monkeypatch.setattr(entry, "_assemble", lambda: refusing(error))
    ran = run()
    assert (ran.code, ran.out, ran.err) == (2, "", "wardround: notes.tsv:3: has 1 columns\n")


def test_a_failed_round_shows_the_error_of_a_site_on_this_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    error = FederationError("east cannot resume from round 0: CorpusError")
    error.__cause__ = CorpusError("has 1\ncolumns", path=Path("/home/ward/private/notes.tsv"), line=3)
    monkeypatch.setattr(entry, "_assemble", lambda: refusing(error))
    said = "wardround: east cannot resume from round 0: CorpusError – notes.tsv:3: has 1 columns\n"
    assert run().err == said
    error.__cause__ = LookupError(MARKER)  # which is none of ours, and might quote a note
    assert run().err == "wardround: east cannot resume from round 0: CorpusError\n"
    other = UsageError("too much")
    other.__cause__ = CorpusError("unasked")
    monkeypatch.setattr(entry, "_assemble", lambda: refusing(other))
    assert run().err == "wardround: too much\n"


def test_the_name_of_a_file_cannot_speak_to_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    error = UsageError("\x1b]0;owned\x07 a\nb\u202e")
    monkeypatch.setattr(entry, "_assemble", lambda: refusing(error))
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


# Quiet and verbose.


def test_quiet_leaves_the_result_only(run: Run, site: Path, tmp_path: Path) -> None:
    words = train(site, tmp_path / "run", "--training-option", "epochs=1")
    ran = run("--quiet", *words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == f"report  {tmp_path / 'run' / 'report.html'}"
    assert run("-q", "study", "show", tmp_path / "none.toml").err.startswith("wardround: there is no study file")


def test_without_quiet_there_is_progress(run: Run, site: Path, tmp_path: Path) -> None:
    assert "loss" in run(*train(site, tmp_path / "run", "--training-option", "epochs=1")).err


def test_quiet_hides_warnings(run: Run, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Seen on 3 May 2021.")
    words = ("redact", tmp_path / "note.txt", "--out")
    assert "no --model" in run(*words, tmp_path / "one").err
    assert run("--quiet", *words, tmp_path / "two").err == ""


def test_quiet_and_verbose_exclude_each_other(run: Run) -> None:
    ran = run("--quiet", "--verbose", "model", "presets")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "wardround: --quiet and --verbose exclude each other; give one of them\n"


def chatty(message: str) -> typer.Typer:
    """Return a program whose command logs a message of ours and one of another library, then fails unexpectedly."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(entry._root)

    @app.command()
    def chat() -> None:
        logging.getLogger("wardround.models").info(message)
        logging.getLogger("another.library").warning(MARKER)
        try:
            raise LookupError(MARKER)
        except LookupError as error:
            logging.getLogger("wardround.models").warning("a step failed", exc_info=True)
            raise ValueError(MARKER) from error

    return app


def test_verbose_shows_our_messages_and_places_but_no_note(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_assemble", lambda: chatty("the device is cpu"))
    ran = run("--verbose", "chat")
    assert ran.code == 3
    version, first, second, failed, place, cause = ran.err.splitlines()
    assert version == f"wardround: version {__version__}"
    assert (first, second) == ("wardround: the device is cpu", "wardround: a step failed")
    assert failed.startswith("wardround: unexpected ValueError at test_main.py:")
    assert re.fullmatch(r"  ValueError: (\S+:\d+ → )+test_main\.py:\d+", place)
    assert re.fullmatch(r"  LookupError: test_main\.py:\d+", cause)
    assert MARKER not in ran.said
    assert verbosity.get() is Verbosity.NORMAL and not logging.getLogger("wardround").handlers


def test_only_verbose_shows_our_messages_and_places(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_assemble", lambda: chatty("the device is cpu"))
    ran = run("chat")
    assert len(ran.err.splitlines()) == 2 and "device" not in ran.err
    assert run("--quiet", "chat").err.startswith("wardround: unexpected ValueError")


def test_verbose_shows_the_places_of_an_error_of_ours(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("{")
    ran = run("--verbose", "data", "stats", tmp_path / "notes.jsonl", "--format", "jsonl")
    assert ran.code == 2
    assert re.search(r"^  CorpusError: main\.py:\d+ → .*corpus_format\.py:\d+$", ran.err, re.MULTILINE)


def test_verbose_says_what_was_read_and_loaded(run: Run, site: Path, trained: Path) -> None:
    ran = run("--verbose", "evaluate", trained / "model", site, "--format", "brat", "--device", "cpu")
    assert ran.code == 0
    assert ran.err.splitlines() == [
        f"wardround: version {__version__}",
        "wardround: loaded a word-tagger of 2 types",
        "wardround: the device is cpu",
        f"wardround: read {len(TEST)} notes of the part test",
    ]


# Completion.


def completed(words: str) -> list[str]:
    """Return what bash offers after these words."""
    position = str(len(words.split(" ")) - 1)
    environment = {"_WARDROUND_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    command = [sys.executable, "-c", "from wardround.cli.main import main; main()"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
    return ended.stdout.split()


def test_completion_offers_every_command() -> None:
    assert completed("wardround ") == list(COMMANDS)


def test_completion_offers_the_commands_and_options_of_a_group() -> None:
    assert completed("wardround model ") == ["show", "export", "presets"]
    assert "--json" in completed("wardround model presets --")


def test_the_completion_script_can_be_shown(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    ran = run("--show-completion")
    assert ran.code == 0
    assert "_WARDROUND_COMPLETE=complete_bash" in ran.out


# Exit codes.


def test_the_codes_of_commands(run: Run, tmp_path: Path) -> None:
    corpus = tmp_path / "notes.jsonl"
    corpus.write_text("{")
    assert run("data", "check", corpus, "--format", "jsonl").code == entry.ExitCode.FINDINGS
    assert run("data", "stats", corpus, "--format", "jsonl").code == entry.ExitCode.REFUSED
    assert run("model", "presets").code == entry.ExitCode.SUCCESS


def test_ctrl_c_has_a_code_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wardround.cli.model.Table", interrupt)
    assert run("model", "presets").code == entry.ExitCode.INTERRUPTED


def test_tables_as_csv(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("Aspirin\tB-Drug\n80\tO\nmg\tO\n\n")
    ran = run("--csv", "data", "stats", tmp_path / "a.tsv", "--format", "conll")
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == [",all", "documents,1"]
    assert "┃" in run("data", "stats", tmp_path / "a.tsv", "--format", "conll").out
