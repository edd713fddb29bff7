from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from wardround.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quickstart.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands() -> list[tuple[str, list[str]]]:
    """Every command of the page and the lines it shows."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8"))).splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif line != "…":
            found[-1][1].append(line)
    return found


def squeezed(text: str) -> str:
    """Without what may differ on another machine (scores, predicted types) and what follows from it (line ends)."""
    return re.sub(r"[\s─]|‹\w+›|\d\.\d{3}", "", text)


def printed(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    words = shlex.split(command)
    if words[0] == "head":
        return Path(words[2]).read_text()
    if words[0] == "echo":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{words[1]}\n".encode())))
        words = words[3:]
    assert words[0] == "wardround"
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert not ended.value.code, command
    return capsys.readouterr().out


def test_the_page_has_commands_and_no_absolute_path() -> None:
    assert [command.split()[1] for command, _ in commands() if command.startswith("wardround")] == [
        *("data", "data", "train", "evaluate", "predict", "predict", "model")
    ]
    assert not re.search(r"(^|\s)/\w", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).is_file(), target


@pytest.mark.slow
def test_the_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for command, shown in commands():
        found = printed(command, capsys, monkeypatch)
        if command.startswith("head"):
            assert all(re.fullmatch(r"T\d+\t\w+ \d+ \d+\t.+", line) for line in found.splitlines())
        else:
            assert [line for line in shown if squeezed(line) not in squeezed(found)] == [], command
