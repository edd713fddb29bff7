from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from wardround.cli.printing import Verbosity, is_quiet, notice, printed, progress_console, verbosity
from wardround.reports.tables import Table, score_cell

THIRD = 1 / 3
TABLE = Table("Scores", ("site", "F1", "notes"), (("east", score_cell(THIRD, (0.25, 0.5)), 1200),))


def test_people_get_lines_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    with printed(False) as result:
        result.line("rounds  3", rounds=3)
        result.item("east", sites="east")
        result.table("scores", TABLE)
        result.show(TABLE)
        result.values(unseen=1)
    out = capsys.readouterr().out
    assert out.startswith("rounds  3\neast\n")
    assert out.count("0.333 (0.250–0.500)") == 2 and out.count("1,200") == 2
    assert "unseen" not in out


def test_json_is_one_object_with_unrounded_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with printed(True) as result:
        result.declare("problems", "sites")
        result.line("rounds  3", rounds=3)
        result.line("only for people")
        result.item("east", sites="east")
        result.item("west", sites="west")
        result.table("scores", TABLE)
        result.show(TABLE)
        result.table("given", TABLE, {"F1": THIRD})
        assert not capsys.readouterr().out
    assert json.loads(capsys.readouterr().out) == {
        "problems": [],
        "sites": ["east", "west"],
        "rounds": 3,
        "scores": [{"site": "east", "F1": THIRD, "F1 low": 0.25, "F1 high": 0.5, "notes": 1200}],
        "given": {"F1": THIRD},
    }


def test_json_has_plain_values_and_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    with printed(True) as result:
        result.values(path=Path("a/b"), missing=float("nan"), pair=(1, 2), kind=Verbosity.QUIET, name="\x1b[31m\u202e")
    out = capsys.readouterr().out
    assert out.isascii() and out.removesuffix("\n").isprintable()
    values = {"path": "a/b", "missing": None, "pair": [1, 2], "kind": "quiet", "name": "\x1b[31m\u202e"}
    assert json.loads(out) == values


def test_findings_are_printed_and_an_error_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), printed(True) as result:
        result.values(errors=1)
        raise typer.Exit(1)
    assert json.loads(capsys.readouterr().out) == {"errors": 1}
    with pytest.raises(LookupError), printed(True) as result:
        result.values(errors=1)
        raise LookupError
    assert not capsys.readouterr().out


def test_quiet_hides_progress_and_notices(capsys: pytest.CaptureFixture[str]) -> None:
    notice("a notice\x07")
    progress_console().print("progress")
    assert capsys.readouterr().err == "a notice␇\nprogress\n"
    before = verbosity.set(Verbosity.QUIET)
    try:
        assert is_quiet()
        notice("a notice")
        progress_console().print("progress")
    finally:
        verbosity.reset(before)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
