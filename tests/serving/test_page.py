from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.browser import OpenPage, browser, browser_page, screenshots

import wardround

pytest.importorskip("starlette", reason="the service needs wardround[serve]")

import uvicorn

from wardround.api.served_model import open_service
from wardround.serving.access import ServiceAccess

__all__ = ["browser", "browser_page", "screenshots"]

TOKEN = "t" * 40
TEXT = "Note 1. 😀 The patient took aspirin 80mg. It gave her rash. <b>Took</b> metformin."


@pytest.fixture
def address(phi_model: wardround.Model) -> Iterator[str]:
    """A service that needs a token and can redact."""
    app = open_service(phi_model, access=ServiceAccess(token=TOKEN))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        server.should_exit = True
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("width", [380, 1000])
def test_a_text_is_tried_in_a_browser(
    browser_page: OpenPage,
    address: str,
    phi_model: wardround.Model,
    screenshots: Callable[[str], Path],
    width: int,
) -> None:
    page = browser_page(width, allowed="401")
    page.goto(address)
    page.get_by_text("Enter the token of this service.").wait_for()
    page.fill("#token", TOKEN)
    page.fill("#text", TEXT)
    page.click("text=Find entities")
    page.wait_for_selector("#result:not([hidden])")
    found = phi_model(TEXT)
    rows = page.locator("#entities tbody tr")
    assert rows.count() == len(found.entities) > 0
    for number, entity in enumerate(found.entities):
        assert rows.nth(number).locator("td").nth(1).text_content() == entity.text_in(TEXT)
    marked = page.locator("mark").evaluate_all("marks => marks.map(mark => mark.firstChild.textContent)")
    assert marked == [entity.text_in(TEXT) for entity in found.entities]
    page.screenshot(path=screenshots(f"serve-{width}"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.select_option("#how", "tag")
    page.click("#redact")
    page.wait_for_selector("text=A model misses some")
    assert page.locator("#title").text_content() == "Redacted"
    page.screenshot(path=screenshots(f"serve-redacted-{width}"), full_page=True)
