"""A real browser for the pages we write and serve: it fails a test on console errors and on foreign requests."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

__all__ = ["OpenPage", "Watch", "browser", "browser_page", "screenshots"]

CHROMIUM = Path("/usr/bin/chromium")
_HEIGHT = 900
_PATIENCE = 180_000.0  # milliseconds that a busy machine may take for what an idle one has at once
_INSIDE = frozenset({"data", "blob", "about"})  # addresses that ask nothing of anybody


class OpenPage(Protocol):
    """Opens an empty page of a width in CSS pixels; console errors that `allowed` matches do not fail the test."""

    def __call__(self, width: int, *, allowed: str | None = None) -> Page: ...


@dataclass
class Watch:
    """What a page did that it should not."""

    allowed: re.Pattern[str] | None = None
    host: str | None = None  # of the first address the page was sent to
    faults: list[str] = field(default_factory=list)

    def over(self, page: Page) -> Page:
        page.on("console", self.on_console)
        page.on("pageerror", self.on_error)
        page.on("request", self.on_request)
        return page

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._blame(f"console {message.type}: {message.text}")

    def on_error(self, error: Exception) -> None:
        self._blame(f"uncaught error: {error}")

    def on_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in _INSIDE:
            return
        if self.host is None:
            self.host = address.netloc
        if address.netloc != self.host:
            self.faults.append(f"request to another host: {request.url}")

    def _blame(self, fault: str) -> None:
        if self.allowed is None or not self.allowed.search(fault):
            self.faults.append(fault)


@pytest.fixture(scope="module")  # no longer: while it runs, its thread has an event loop that others cannot start anew
def browser() -> Iterator[Browser]:
    """Debian's Chromium, headless; a test that asks for it skips where it or Playwright is absent."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser here: {CHROMIUM} is absent")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=str(CHROMIUM), args=root, timeout=_PATIENCE)
        yield opened
        opened.close()


@pytest.fixture
def browser_page(browser: Browser) -> Iterator[OpenPage]:
    """Call it with a width; the test fails at its end if a page complained or asked anything of another host."""
    opened: list[tuple[Page, Watch]] = []

    def open_page(width: int, *, allowed: str | None = None) -> Page:
        watch = Watch(None if allowed is None else re.compile(allowed))
        page = watch.over(browser.new_page(viewport={"width": width, "height": _HEIGHT}))
        page.set_default_timeout(_PATIENCE)
        opened.append((page, watch))
        return page

    yield open_page
    for page, _ in opened:
        with suppress(Exception):  # a page that the test closed itself
            page.close()
    faults = [fault for _, watch in opened for fault in watch.faults]
    assert not faults, faults


@pytest.fixture(scope="session")
def screenshots() -> Callable[[str], Path]:
    """Where a picture of this name goes, for a person to look at: below `build/screenshots`, which git ignores."""
    folder = Path(__file__).resolve().parents[1] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return lambda name: folder / f"{name}.png"
