"""The site of `make docs`: it builds without a warning, is complete, and asks nothing of another host."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.browser import OpenPage
from tests.docs.pages import DOCS, ROOT

import wardround

for name in ("mkdocs", "material", "mkdocstrings_handlers.python"):
    pytest.importorskip(name, reason="the site needs wardround[docs]")

FOREIGN = re.compile(r"^(https?:)?//")
ROLES = ("engineer", "data-scientist", "coordinator", "hospital-it", "data-protection")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture(scope="module")
def hooks() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "site_hooks.py"))


class Loaded(HTMLParser):
    """Collects the addresses that a browser loads with a page; links that a person follows are none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for attribute, value in attrs:
            if attribute in ("src", "srcset", "data", "poster") or (tag == "link" and attribute == "href"):
                self.addresses.append(value or "")


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = Loaded()
        text = page.read_text(encoding="utf-8")
        loaded.feed(text)
        assert loaded.addresses
        assert not [address for address in loaded.addresses if FOREIGN.match(address)], page.name
        assert 'class="mermaid"' not in text  # the theme would load a library to draw it
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert not [style for style in styles if re.search(r"url\(['\"]?(https?:)?//|@import", style)]


def test_every_page_is_in_the_navigation(site: Path) -> None:
    listed = re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert {path.name for path in DOCS.glob("*.md")} <= {*listed}
    assert len(listed) == len({*listed})
    start = (site / "index.html").read_text(encoding="utf-8")
    for part in ("Tutorials", "How-to guides", "Reference", "Explanation"):
        assert part in start


def test_the_api_shows_every_name_with_its_example(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in wardround.__all__:
        if name != "__version__" and not name.endswith("Error"):
            assert f'id="wardround.{name}"' in text, name
    assert text.count('<span class="gp">&gt;&gt;&gt; </span>') > 50
    assert "<blockquote>" not in text


def test_anchors_are_those_of_a_forge(hooks: dict[str, Any]) -> None:
    assert hooks["slug"]("Going on, and the same again", "-") == "going-on-and-the-same-again"
    assert hooks["slug"]("4. Different labels", "-") == "4-different-labels"


def test_a_diagram_has_its_parties_and_messages(hooks: dict[str, Any]) -> None:
    source = (
        "sequenceDiagram\n    participant A as the site\n    participant B as <B>\n    A->>B: ask\n    B-->>A: answer\n"
    )
    drawn = hooks["format_diagram"](source + "    Note over A: done\n", "", "diagram", {}, None)
    assert drawn.count('class="party"') == 2
    assert drawn.count('class="message"') == drawn.count('class="answer"') == drawn.count('class="note"') == 1
    assert "&lt;B&gt;" in drawn
    with pytest.raises(ValueError, match="the site draws no such line of a diagram: loop every round"):
        hooks["format_diagram"](source + "loop every round", "", "diagram", {}, None)


def test_the_examples_of_a_docstring_are_fenced() -> None:
    pytest.importorskip("griffe")
    fenced = runpy.run_path(str(ROOT / "scripts" / "doctest_blocks.py"))["fenced"]
    assert fenced("Add.\n\n>>> add(1,\n...     2)\n3\n\nMore.") == (
        "Add.\n\n```pycon\n>>> add(1,\n...     2)\n3\n```\n\nMore."
    )


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_pages_and_the_search_work_in_a_browser_without_another_host(address: str, browser_page: OpenPage) -> None:
    page = browser_page(1400)
    for name in ("index", "api", "architecture", *ROLES):
        page.goto(f"{address}/{name}.html")
        assert page.locator("h1").count() == 1
    page.goto(f"{address}/index.html")
    page.locator("input.md-search__input").click()
    page.locator(".md-search-result__meta", has_not_text="Initializing").wait_for()
    page.locator("input.md-search__input").press_sequentially("surrogate")  # the search listens for keys
    page.locator("a.md-search-result__link").first.wait_for()
