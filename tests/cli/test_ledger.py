"""`wardround ledger` at the command line."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from wardround.cli.ledger import app
from wardround.cli.main import main
from wardround.errors import LedgerError
from wardround.federation.ledger import Ledger
from wardround.federation.message import Message


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "120"})


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("time.time", lambda: 86_400.0)  # the second day of 1970
    path = tmp_path / "egress.jsonl"
    ledger = Ledger(path)
    for number in (999, 1000, 1001):
        message = Message({"weight": 2.0, "note": "Mrs Marker"}, {"w": np.zeros(number)})
        ledger.record(message, study="heart", step="gradient", round_number=number, mechanism="sealed+masked")
    return path


def rows(result: Result) -> list[list[str]]:
    lines = [line for line in result.output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_show_says_what_left_and_not_what_was_in_it(path: Path) -> None:
    result = run("show", path)
    assert result.exit_code == 0
    # 8 bytes of mark and length, 80 or 81 of header, 8 for each number.
    first, second, third = rows(result)
    assert first[:5] == ["1970-01-02 00:00:00", "heart", "999", "gradient", "sealed+masked"]
    sizes = [int(row[5].replace(",", "")) for row in (first, second, third)]
    assert sizes[1] - sizes[0] == 8 + 1 and sizes[2] - sizes[1] == 8
    assert [row[2] for row in (first, second, third)] == ["999", "1000", "1001"]
    assert all(len(row[6]) == 8 and row[7:] == [""] for row in (first, second, third))
    assert f"3 of 3 entries shown; {sum(sizes):,} bytes left in all of them." in result.output
    assert "Marker" not in result.output


def test_show_the_newest(path: Path) -> None:
    result = run("show", path, "--last", "1")
    assert [row[2] for row in rows(result)] == ["1001"]
    assert "1 of 3 entries shown" in result.output


def test_show_refuses_a_broken_ledger(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"round":1000', b'"round":2000'))
    error = run("show", path).exception
    assert isinstance(error, LedgerError)
    assert str(error) == "egress.jsonl:3: does not follow the line before it"


def test_show_takes_no_control_characters_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "egress.jsonl"
    Ledger(path).record(Message(), study="\x1b[31m[red]", step="s", round_number=1, mechanism="plain")
    assert rows(run("show", path))[0][1] == "␛[31m[red]"


def test_show_prints_a_dash_for_an_invalid_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1e300)
    path = tmp_path / "egress.jsonl"
    Ledger(path).record(Message(), study="s", step="s", round_number=1, mechanism="plain")
    assert rows(run("show", path))[0][0] == "–"


def test_verify_an_intact_ledger_prints_its_head(path: Path) -> None:
    result = run("verify", path)
    head = sha256(path.read_bytes().splitlines()[-1]).hexdigest()
    first, second = result.output.splitlines()
    assert result.exit_code == 0
    assert first.startswith("egress.jsonl: intact, 3 entries, 2") and first.endswith(" bytes left")
    assert second == f"head {head}"


def test_verify_says_that_a_line_was_never_finished(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b'{"time":')
    before = path.read_bytes()
    result = run("verify", path)
    assert result.exit_code == 0
    assert "never finished, and its message never sent" in result.output
    assert path.read_bytes() == before


def test_verify_fails_on_a_broken_ledger_with_one_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"round":999', b'"round":998'))
    result = run("verify", path)
    assert (result.exit_code, result.output) == (1, "egress.jsonl:2: does not follow the line before it\n")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"")
    result = run("verify", path)
    assert len(lines) == 3
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "its end is missing" in result.output


def test_a_head_that_was_noted_elsewhere_must_still_be_in_it(path: Path, tmp_path: Path) -> None:
    noted = run("verify", path).output.splitlines()[-1].removeprefix("head ")
    assert run("verify", path, "--head", noted).exit_code == 0
    Ledger(path).record(Message({"more": 1}), study="s", step="later", round_number=9, mechanism="plain")
    assert run("verify", path, "--head", noted).exit_code == 0  # later entries are allowed
    rewritten = tmp_path / "rewritten.jsonl"
    Ledger(rewritten).record(Message({"other": 1}), study="s", step="forged", round_number=1, mechanism="plain")
    assert run("verify", rewritten).exit_code == 0
    result = run("verify", rewritten, "--head", noted)
    assert (result.exit_code, "no line has the noted head; the file was rewritten" in result.output) == (1, True)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    for command in ("show", "verify"):
        assert run(command, tmp_path / "none").exit_code == 2
        assert run(command, tmp_path).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_it_is_a_command_of_wardround(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["ledger", "verify", str(path)])
    assert stopped.value.code == 0
    assert "intact, 3 entries" in capsys.readouterr().out
    path.write_bytes(b"{}\n")
    with pytest.raises(SystemExit) as stopped:
        main(["ledger", "verify", str(path)])
    assert stopped.value.code == 1
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "Show or verify the record of what left a site." in capsys.readouterr().out
