"""The browser of other tests: which pages it accepts, and which it reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import OpenPage, Watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_HEAD = "<!doctype html><html lang=en><title>t</title>"


def test_a_page_has_the_requested_width_and_a_screenshot(
    browser_page: OpenPage, screenshots: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(f"{_HEAD}<h1>Hello</h1>")
    page = browser_page(390)
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("innerWidth") == 390
    assert page.inner_text("h1") == "Hello"
    page.screenshot(path=screenshots("browser-390"))
    assert screenshots("browser-390").is_file()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<script>console.error('ward')</script>", "console error: ward"),
        ("<script>throw new Error('oh')</script>", "uncaught error: oh"),
        ("<img src='http://127.0.0.1:9/x.png' alt=''>", "request to another host: http://127.0.0.1:9/x.png"),
    ],
)
def test_console_errors_and_requests_to_other_hosts_are_faults(
    browser: Browser, tmp_path: Path, body: str, fault: str
) -> None:
    (tmp_path / "page.html").write_text(_HEAD + body)
    watch = Watch()
    page = watch.over(browser.new_page())
    page.goto((tmp_path / "page.html").as_uri())
    page.close()
    assert fault in watch.faults


def test_an_allowed_console_error_is_not_a_fault(browser_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"{_HEAD}<script>console.error('gone for now')</script>")
    browser_page(390, allowed="gone for").goto((tmp_path / "page.html").as_uri())
