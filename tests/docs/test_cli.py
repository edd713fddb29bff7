from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.running import DEV, TEST, TRAIN, exit_code, train, write_site
from tests.cli.test_json import WITHOUT
from tests.docs.pages import codes, commands, rows, section, text_of

from wardround.cli.exit_codes import ExitCode
from wardround.cli.main import main

PAGE = "cli.md"


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    found = {int(row["code"]): row["meaning"] for row in rows(section(PAGE, "## Exit codes"))}
    assert found == {int(code): code.meaning for code in ExitCode}
    assert list(found) == [int(code) for code in ExitCode]


def test_the_commands_without_json_are_named() -> None:
    (paragraph,) = (part for part in text_of(PAGE).split("\n\n") if "have no `--json`" in part)
    named = codes(paragraph.partition("have no `--json`:")[2])
    # A supervisor runs the hidden ones, which nobody types.
    assert sorted(named) == sorted(" ".join(path) for path in WITHOUT if path[-1] != "work")


def test_the_root_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    options = [code for row in rows(section(PAGE, "## Output")) for code in codes(row["option"])]
    assert {"--quiet", "-q", "--verbose", "-v"} <= {*options}
    for option in {*options, "--install-completion", "--show-completion"} - {"--json"}:
        assert option in shown


def test_errors_are_as_the_page_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = write_site(tmp_path / "ward", train=TRAIN, dev=DEV, test=TEST)
    assert exit_code(*train(site, tmp_path / "runs" / "first", "--training-option", "epochs=1")) == 0
    shutil.rmtree(tmp_path / "ward")
    monkeypatch.chdir(tmp_path)
    shown = commands(PAGE)
    assert len(shown) == 2
    for command, lines in shown:
        capsys.readouterr()
        assert exit_code(*command.split()[1:]) == ExitCode.REFUSED
        captured = capsys.readouterr()
        assert (captured.out, captured.err.splitlines()) == ("", lines)
