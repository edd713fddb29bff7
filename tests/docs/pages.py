"""Helpers that read the pages of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wardround.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")

Row = dict[str, str]


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a language, "" for those without one."""
    return [block for name, block in _BLOCK.findall(text_of(page)) if name == language]


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Return every command of the page's console blocks with the output lines shown below it."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line != "…":
                found[-1][1].append(line)
    return found


def plain_commands(page: str) -> list[str]:
    """Return the commands of the blocks without output, without their comments."""
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    return [line.partition("#")[0].strip() for line in lines if line.startswith("wardround ")]


def squeezed(text: str) -> str:
    """Remove what may differ on another machine: scores, predicted types, and the line breaks that depend on them."""
    return re.sub(r"[\s─]|‹\w+›|\d\.\d{3}", "", text)


def output_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run `wardround`, require success, and return its output."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code, arguments
    return capsys.readouterr().out


def section(page: str, heading: str) -> str:
    """Return the text under a heading, up to the next heading of its level or above."""
    marks, _, _ = heading.partition(" ")
    start = f"\n{heading}\n"
    text = text_of(page)
    assert text.count(start) == 1, heading
    return re.split(rf"^#{{1,{len(marks)}}} ", text.partition(start)[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of every table in a text as dictionaries by column name."""
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
    """Return the texts in backticks."""
    return _CODE.findall(cell)
