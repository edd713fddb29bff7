from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.docs.pages import commands, output_of, squeezed

PAGE = "quickstart.md"


def printed(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    words = shlex.split(command)
    if words[0] == "head":
        return Path(words[2]).read_text()
    if words[0] == "echo":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{words[1]}\n".encode())))
        words = words[3:]
    assert words[0] == "wardround"
    return output_of(words[1:], capsys)


def test_the_page_has_commands() -> None:
    assert [command.split()[1] for command, _ in commands(PAGE) if command.startswith("wardround")] == [
        *("data", "data", "train", "evaluate", "predict", "predict", "model", "study", "study", "run", "ledger")
    ]


@pytest.mark.slow
def test_the_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for command, shown in commands(PAGE):
        found = printed(command, capsys, monkeypatch)
        if command.startswith("head"):
            assert all(re.fullmatch(r"T\d+\t\w+ \d+ \d+\t.+", line) for line in found.splitlines())
        else:
            assert [line for line in shown if squeezed(line) not in squeezed(found)] == [], command
