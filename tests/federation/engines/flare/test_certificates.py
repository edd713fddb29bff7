"""The study's authority: its chains verify, foreign ones do not, and errors show no path."""

from __future__ import annotations

import stat
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from wardround.errors import KitError

pytest.importorskip("nvflare", reason="certificates are made with FLARE's tools")

from nvflare.lighter.utils import load_crt_bytes

from wardround.federation.engines.flare.certificates import (
    check_issued,
    check_pair,
    fingerprint,
    make_authority,
    make_request,
    sign,
    write_private,
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one") / "authority"
    make_authority(folder, study="heart", days=10)
    return folder


@pytest.fixture(scope="module")
def site(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Return a site's key and certificate."""
    asked = make_request("harbour", "client", tmp_path_factory.mktemp("site"))
    name, certificate = sign(asked.read_bytes(), authority, kind="client", days=5, what=asked.name)
    assert name == "harbour"
    return asked.with_suffix(".key").read_bytes(), certificate


def root(authority: Path) -> bytes:
    return (authority / "rootCA.pem").read_bytes()


def test_the_chain_verifies_and_names_the_site(authority: Path, site: tuple[bytes, bytes]) -> None:
    found = check_issued(site[1], root(authority), what="client.crt")
    assert found.name == "harbour"
    assert timedelta(days=4) < found.expires - datetime.now(UTC) <= timedelta(days=5)
    check_pair(*site, what="client.crt")


def test_no_certificate_outlives_its_authority(authority: Path, tmp_path: Path) -> None:
    _, certificate = sign(
        make_request("a", "client", tmp_path).read_bytes(), authority, kind="client", days=3000, what="a.csr"
    )
    held = check_issued(certificate, root(authority), what="client.crt")
    assert held.expires - datetime.now(UTC) <= timedelta(days=10)


def test_only_the_authority_may_sign_others(authority: Path, site: tuple[bytes, bytes]) -> None:
    constraints = [
        extension.value.ca
        for certificate in (root(authority), site[1])
        for extension in load_crt_bytes(certificate).extensions
        if extension.oid.dotted_string == "2.5.29.19"  # basic constraints
    ]
    assert constraints == [True, False]


def test_the_coordinators_certificate_contains_its_host(authority: Path, tmp_path: Path) -> None:
    asked = make_request("coordinator", "server", tmp_path)
    _, certificate = sign(
        asked.read_bytes(), authority, kind="server", days=5, what=asked.name, host="study.example.org"
    )
    (names,) = (
        extension.value
        for extension in load_crt_bytes(certificate).extensions
        if extension.oid.dotted_string == "2.5.29.17"  # subject alternative name
    )
    assert [name.value for name in names] == ["study.example.org"]


def test_another_authority_with_the_same_name_is_refused(site: tuple[bytes, bytes], tmp_path: Path) -> None:
    make_authority(tmp_path / "other", study="heart", days=10)
    with pytest.raises(KitError, match=r"client\.crt was not signed by this study's authority"):
        check_issued(site[1], root(tmp_path / "other"), what="client.crt")


def test_an_invalid_key_is_refused(site: tuple[bytes, bytes]) -> None:
    for key in (b"", b"hello", b"\xff", site[1]):
        with pytest.raises(KitError, match="the private key cannot be read"):
            check_pair(key, site[1], what="client.crt")


def test_a_request_creates_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    asked = make_request("harbour", "client", tmp_path / "site")
    assert {path.name for path in asked.parent.iterdir()} == {"harbour.csr", "harbour.key"}
    assert stat.S_IMODE(asked.with_suffix(".key").stat().st_mode) == 0o600
    assert stat.S_IMODE(asked.parent.stat().st_mode) == 0o700


def test_a_write_error_of_flare_is_reported_without_its_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(KitError, match=r"^the request for 'harbour' cannot be made; is the folder writable\?$"):
        make_request("harbour", "client", tmp_path / "file")
    assert capfd.readouterr() == ("", "")


def test_the_fingerprint_is_the_digest_of_the_certificate(authority: Path) -> None:
    encoded = b"".join(root(authority).splitlines()[1:-1])
    digest = sha256(b64decode(encoded)).hexdigest().upper()
    pairs = [digest[start : start + 2] for start in range(0, 64, 2)]
    assert fingerprint(root(authority)) == "SHA256:" + ":".join(pairs)


def test_a_private_file_must_not_exist(tmp_path: Path) -> None:
    write_private(tmp_path / "key", b"one")
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "key", b"two")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        write_private(tmp_path / "link", b"three")
    assert (tmp_path / "key").read_bytes() == b"one" and not (tmp_path / "elsewhere").exists()
