"""Certificates at the other end of a connection: which party they name, and which are refused."""

from __future__ import annotations

import ssl
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import load_pem_x509_certificate
from tests.secure_aggregation.authority import Authority, rsa_key

from wardround.errors import KeyMaterialError, MessageError
from wardround.secure_aggregation.keys.peers import (
    PartyFiles,
    fingerprint_of,
    issued_key,
    peer_of,
    tls_client,
    tls_server,
)


@pytest.fixture(scope="module")
def study() -> Authority:
    return Authority()


def der(pem: bytes) -> bytes:
    return load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def test_a_peer_has_the_name_and_fingerprint_of_its_certificate(study: Authority) -> None:
    pem = study.certificate("h1", rsa_key(1))
    found = peer_of(der(pem))
    digest = sha256(der(pem)).hexdigest().upper()
    assert found.name == "h1"
    assert found.fingerprint == fingerprint_of(pem)
    assert found.fingerprint.removeprefix("SHA256:").replace(":", "") == digest


def test_an_authority_is_not_a_party(study: Authority) -> None:
    for pem in (study.pem, study.certificate("h1", rsa_key(1), ca=True)):
        with pytest.raises(MessageError, match="is not a certificate of a party"):
            peer_of(der(pem))
        with pytest.raises(MessageError, match="is not a certificate of a party"):
            issued_key(pem, root=study.pem, name="h1")


@pytest.mark.parametrize("data", [b"", b"x", b"\x30\x03\x02\x01\x01"])
def test_bytes_that_are_not_a_certificate_are_refused(data: bytes, study: Authority) -> None:
    with pytest.raises(MessageError, match=r"^certificate"):
        peer_of(data)
    with pytest.raises(KeyMaterialError, match="is not a certificate"):
        fingerprint_of(data)


def test_the_key_of_a_certificate_of_the_study(study: Authority) -> None:
    pem = study.certificate("h1", rsa_key(1))
    assert issued_key(pem, root=study.pem, name="h1").public_numbers() == rsa_key(1).public_key().public_numbers()


@pytest.mark.parametrize(
    ("name", "days", "number", "complaint"),
    [
        ("h2", (-1, 1), 0, "the certificate of h1 was issued to another party"),
        ("h1", (-2, -1), 0, "the certificate of h1 is not valid today"),
        ("h1", (1, 2), 0, "the certificate of h1 is not valid today"),
        ("h1", (-1, 1), 3, "the certificate of h1 belongs to another study"),
    ],
)
def test_the_key_of_an_invalid_certificate_is_refused(
    name: str, days: tuple[int, int], number: int, complaint: str, study: Authority
) -> None:
    pem = Authority(number).certificate(name, rsa_key(1), days=days)
    with pytest.raises(KeyMaterialError, match=f"^{complaint}$"):
        issued_key(pem, root=study.pem, name="h1")


def test_a_key_of_another_kind(study: Authority) -> None:
    pem = study.certificate("h1", ec.generate_private_key(ec.SECP256R1()))  # type: ignore[arg-type]
    with pytest.raises(KeyMaterialError, match="has no RSA key"):
        issued_key(pem, root=study.pem, name="h1")


def test_tls_always_requires_a_certificate_of_the_study(study: Authority, tmp_path: Path) -> None:
    files = study.party(tmp_path / "h1", "h1", 1)
    for context in (tls_server(files), tls_client(files)):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.verify_flags == ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST
        assert len(context.get_ca_certs()) == 1  # the study's root, and none that the machine trusts


@pytest.mark.parametrize("file", ["own.key", "own.crt", "root.pem"])
def test_a_kit_that_lacks_a_file(file: str, study: Authority, tmp_path: Path) -> None:
    files = study.party(tmp_path / "h1", "h1", 1)
    (tmp_path / "h1" / file).unlink()
    with pytest.raises(KeyMaterialError, match=r"^the kit lacks a key or certificate") as refused:
        tls_client(files)
    assert str(tmp_path) not in str(refused.value)


def test_the_paths_of_a_partys_files(tmp_path: Path) -> None:
    files = PartyFiles(tmp_path, tmp_path / "k", tmp_path / "c", tmp_path / "r")
    kept = [files.vault, files.epochs, files.log, files.parameters, files.service]
    assert len({path.name for path in kept}) == 5 and {path.parent for path in kept} == {tmp_path}
