"""The pages of the documentation, and how to read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wardround.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```(console)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")

Row = dict[str, str]


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Every command of the page's console blocks, and the lines it shows."""
    found: list[tuple[str, list[str]]] = []
    for console, block in _BLOCK.findall(text_of(page)):
        for line in block.splitlines() if console else ():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line != "…":
                found[-1][1].append(line)
    return found


def plain_commands(page: str) -> list[str]:
    """The commands of the blocks that show no output, without their remarks."""
    lines = [line for console, block in _BLOCK.findall(text_of(page)) if not console for line in block.splitlines()]
    return [line.partition("#")[0].strip() for line in lines if line.startswith("wardround ")]


def squeezed(text: str) -> str:
    """Without what may differ on another machine (scores, predicted types) and what follows from it (line ends)."""
    return re.sub(r"[\s─]|‹\w+›|\d\.\d{3}", "", text)


def said_by(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What `wardround` prints when it ends well."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code, arguments
    return capsys.readouterr().out


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of its rank or above."""
    marks, _, _ = heading.partition(" ")
    start = f"\n{heading}\n"
    text = text_of(page)
    assert text.count(start) == 1, heading
    return re.split(rf"^#{{1,{len(marks)}}} ", text.partition(start)[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[Row]:
    """The rows of every table in a text, by the heads of their columns."""
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            heads = []
        elif not heads:
            heads = cells
        elif not set(line) <= set("| -"):
            yield dict(zip(heads, cells, strict=True))


def codes(cell: str) -> list[str]:
    """What stands between backticks."""
    return _CODE.findall(cell)
