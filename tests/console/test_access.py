from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the console needs wardround[console]")

import stat

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from wardround.console.access import Access, Certificate, Guard, is_loopback, read_token
from wardround.errors import UsageError

TOKEN = "t" * 32
TLS = Certificate(Path("chain.pem"), Path("key.pem"))


def client(access: Access, base: str = "http://127.0.0.1:8800") -> TestClient:
    def page(_: Request) -> Response:
        return PlainTextResponse("inside", headers={"referrer-policy": "same-origin"})

    routes = [Route(path, page, methods=["GET", "POST"]) for path in ("/", "/login", "/static/console.css")]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, access=access)])
    return TestClient(app, base_url=base, follow_redirects=False)


@pytest.mark.parametrize("host", ["127.0.0.1:8800", "localhost", "localhost:9000", "[::1]:8800", "[::1]"])
def test_local_host_names_are_served_at_any_port(host: str) -> None:
    assert client(Access()).get("/", headers={"host": host}).text == "inside"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8800", "[::2]:8800", "localhost.evil:80", ""])
def test_a_request_for_another_host_name_is_refused(host: str) -> None:
    answer = client(Access()).get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "inside" not in answer.text


def test_every_answer_including_refusals_has_strict_headers() -> None:
    inside = client(Access())
    for answer in (inside.get("/"), inside.get("/", headers={"host": "evil.example"}), inside.get("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_can_have_a_stricter_policy() -> None:
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


def test_a_valid_session_is_accepted() -> None:
    access = Access(token=TOKEN)
    assert client(access).get("/", headers={"cookie": f"wardround={access.session()}"}).text == "inside"


def test_with_tls_only_a_host_cookie_is_accepted() -> None:
    access = Access("192.168.0.7", 443, TLS, TOKEN)
    inside = client(access, "https://192.168.0.7")
    assert inside.get("/", headers={"cookie": f"wardround={access.session()}"}).status_code == 401
    assert inside.get("/", headers={"cookie": f"__Host-wardround={access.session()}"}).text == "inside"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "LOCALHOST", "::1"])
def test_hosts_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "::", "example.org", "localhost.example.org", ""])  # noqa: S104
def test_hosts_of_others(host: str) -> None:
    assert not is_loopback(host)


def test_local_access_needs_no_login() -> None:
    access = Access()
    assert access.address == "http://127.0.0.1:8800/"
    assert not access.token


def test_remote_access_without_tls_is_refused() -> None:
    with pytest.raises(UsageError, match=r"can be reached from other machines, .*: add --certificate and --key"):
        Access("192.168.0.7", token=TOKEN)


def test_remote_access_with_tls_and_a_token() -> None:
    access = Access("192.168.0.7", 443, TLS, TOKEN)
    assert access.address == "https://192.168.0.7:443/"
    assert access.cookie == "__Host-wardround"
    assert access.serves_host("anything.example.org")


def test_an_ipv6_address_is_put_in_brackets() -> None:
    assert Access("::1").address == "http://[::1]:8800/"


def test_only_the_token_is_accepted() -> None:
    access = Access(token=TOKEN)
    assert access.is_token(f" {TOKEN}\n")
    for wrong in ("", "t" * 31, "t" * 33, "ü" * 32):
        assert not access.is_token(wrong)


def test_the_cookie_is_derived_from_the_token() -> None:
    access = Access(token=TOKEN)
    assert TOKEN not in access.session()
    assert access.is_session(access.session())
    assert not access.is_session(Access(token="u" * 32).session())
    assert not access.is_session("")


def test_repr_does_not_contain_the_token() -> None:
    assert TOKEN not in repr(Access(token=TOKEN))


def test_a_token_file_is_written_once_for_its_owner_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_token(path) == token


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    read_token(path)
    path.chmod(0o640)
    with pytest.raises(UsageError, match="other users can read token; run chmod 600 on it"):
        read_token(path)


def test_a_short_token_is_refused_and_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("sesame")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="contains no token of 32 characters") as refused:
        read_token(path)
    assert "sesame" not in str(refused.value)


def test_a_token_file_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "token"
    with pytest.raises(
        UsageError, match=f"--token-file {path}: there is no folder {path.parent}; create it, or choose"
    ):
        read_token(path)


def test_a_token_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(
        UsageError, match="token: Not a directory; let this user read and write there, or choose another file"
    ):
        read_token(tmp_path / "keys" / "token")
