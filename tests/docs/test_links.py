from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, ROOT

PAGES = [*sorted(DOCS.glob("*.md")), *(ROOT / f"{name}.md" for name in ("SECURITY", "CONTRIBUTING", "CODE_OF_CONDUCT"))]
LINKING = [*PAGES, ROOT / "README.md"]
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings as GitHub makes them: lower case, dashes for blanks, nothing else."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_an_anchor_is_made_of_a_heading(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Going on, and the same again\n### `[study]`\n")
    assert anchors(page) == {"going-on-and-the-same-again", "study"}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for file, anchor in LINK.findall(prose):
        if file.startswith("http"):
            continue
        target = page.parent / file if file else page
        assert target.is_file(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_an_absolute_path(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"))
    assert not re.search(r"(^|[\s`])/\w", text, re.MULTILINE)
