from __future__ import annotations

import stat
from pathlib import Path

import pytest

from wardround.console.access import Access, Certificate, is_loopback, read_token
from wardround.errors import UsageError

TLS = Certificate(Path("chain.pem"), Path("key.pem"))
TOKEN = "t" * 32


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "LOCALHOST", "::1"])
def test_hosts_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "::", "example.org", "localhost.example.org", ""])  # noqa: S104
def test_hosts_of_others(host: str) -> None:
    assert not is_loopback(host)


def test_on_this_machine_nothing_is_asked_for() -> None:
    access = Access()
    assert access.address == "http://127.0.0.1:8800/"
    assert not access.token


def test_elsewhere_it_refuses_to_start_without_tls_and_says_why() -> None:
    with pytest.raises(UsageError, match="can be reached from other machines; name --certificate and --key"):
        Access("192.168.0.7", token=TOKEN)


def test_elsewhere_with_tls_and_a_token() -> None:
    access = Access("192.168.0.7", 443, TLS, TOKEN)
    assert access.address == "https://192.168.0.7:443/"
    assert access.cookie == "__Host-wardround"
    assert access.serves_host("anything.example.org")


def test_an_ipv6_address_is_put_in_brackets() -> None:
    assert Access("::1").address == "http://[::1]:8800/"


def test_the_token_opens_and_nothing_else_does() -> None:
    access = Access(token=TOKEN)
    assert access.knows_token(f" {TOKEN}\n")
    for wrong in ("", "t" * 31, "t" * 33, "ü" * 32):
        assert not access.knows_token(wrong)


def test_the_cookie_is_not_the_token_and_another_token_makes_another() -> None:
    access = Access(token=TOKEN)
    assert TOKEN not in access.session()
    assert access.knows_session(access.session())
    assert not access.knows_session(Access(token="u" * 32).session())
    assert not access.knows_session("")


def test_the_token_is_not_shown_with_the_rest() -> None:
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
    with pytest.raises(UsageError, match="others can read token; take that away with chmod 600"):
        read_token(path)


def test_a_short_token_is_refused_and_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("sesame")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="holds no token of 32 characters") as refused:
        read_token(path)
    assert "sesame" not in str(refused.value)


def test_a_token_file_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "token"
    with pytest.raises(UsageError, match=f"--token-file {path}: there is no folder {path.parent}; make it, or name"):
        read_token(path)


def test_a_token_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(UsageError, match="token: Not a directory; let this user read and write there, or name a file"):
        read_token(tmp_path / "keys" / "token")
