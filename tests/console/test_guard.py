from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the console needs wardround[console]")

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from wardround.console.access import Access, Certificate
from wardround.console.guard import Guard

TOKEN = "t" * 32
TLS = Certificate(Path("chain.pem"), Path("key.pem"))


def client(access: Access, base: str = "http://127.0.0.1:8800") -> TestClient:
    def page(_: Request) -> Response:
        return PlainTextResponse("inside", headers={"referrer-policy": "same-origin"})

    routes = [Route(path, page, methods=["GET", "POST"]) for path in ("/", "/login", "/static/console.css")]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, access=access)])
    return TestClient(app, base_url=base, follow_redirects=False)


@pytest.mark.parametrize("host", ["127.0.0.1:8800", "localhost", "localhost:9000", "[::1]:8800", "[::1]"])
def test_names_of_this_machine_are_served_at_any_port_for_a_tunnel(host: str) -> None:
    assert client(Access()).get("/", headers={"host": host}).text == "inside"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8800", "[::2]:8800", "localhost.evil:80", ""])
def test_a_page_of_the_web_cannot_look_in_by_a_name_of_its_own(host: str) -> None:
    answer = client(Access()).get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "inside" not in answer.text


def test_every_answer_has_the_strict_headers_refusals_too() -> None:
    inside = client(Access())
    for answer in (inside.get("/"), inside.get("/", headers={"host": "evil.example"}), inside.get("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_may_be_stricter_than_the_rest() -> None:
    assert client(Access()).get("/").headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(method: str) -> None:
    assert client(Access()).request(method, "/").status_code == 405


@pytest.mark.parametrize("cookie", ["", "wardround=", f"wardround={TOKEN}", 'wardround="', "other=1; ="])
def test_without_login_nothing_is_shown(cookie: str) -> None:
    inside = client(Access(token=TOKEN))
    answer = inside.get("/", headers={"cookie": cookie})
    assert (answer.status_code, answer.text) == (401, "log in first")
    page = inside.get("/", headers={"cookie": cookie, "accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login")


def test_the_login_itself_can_be_reached() -> None:
    inside = client(Access(token=TOKEN))
    assert inside.get("/login").text == "inside"
    assert inside.get("/static/console.css").text == "inside"


def test_who_had_the_token_is_let_in() -> None:
    access = Access(token=TOKEN)
    assert client(access).get("/", headers={"cookie": f"wardround={access.session()}"}).text == "inside"


def test_with_tls_only_the_cookie_of_this_very_host_counts() -> None:
    access = Access("192.168.0.7", 443, TLS, TOKEN)
    inside = client(access, "https://192.168.0.7")
    assert inside.get("/", headers={"cookie": f"wardround={access.session()}"}).status_code == 401
    assert inside.get("/", headers={"cookie": f"__Host-wardround={access.session()}"}).text == "inside"
