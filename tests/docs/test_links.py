from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, ROOT

PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "SECURITY.md"]
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: small letters, dashes for blanks, nothing else."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_an_anchor_is_made_of_a_heading(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Going on, and the same again\n### `[study]`\n")
    assert anchors(page) == {"going-on-and-the-same-again", "study"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for file, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if file.startswith("http"):
            continue
        target = page.parent / file if file else page
        assert target.is_file(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_an_absolute_path(page: Path) -> None:
    assert not re.search(r"(^|[\s`])/\w", page.read_text(encoding="utf-8"), re.MULTILINE)
