from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from wardround.errors import FederationError, MessageError
from wardround.secure_aggregation.identities import Signatures, open_signatures

TODAY = datetime.now(UTC)


class Root:
    """A root of trust that issues certificates."""

    def __init__(self, name: str = "study") -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.name = name
        self.pem = self._issue(name, self.key, ca=True, days=(-1, 1))

    def _issue(self, name: str, key: rsa.RSAPrivateKey, *, ca: bool, days: tuple[int, int]) -> bytes:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        builder = x509.CertificateBuilder(
            issuer_name=named(self.name),
            subject_name=named(name),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=TODAY + timedelta(days[0]),
            not_valid_after=TODAY + timedelta(days[1]),
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def party(self, name: str, *, ca: bool = False, days: tuple[int, int] = (-1, 1)) -> Signatures:
        key = rsa.generate_private_key(65537, 2048)
        return Signatures(key=pem_of(key), certificate=self._issue(name, key, ca=ca, days=days), root=self.pem)


def pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.fixture(scope="module")
def root() -> Root:
    return Root()


@pytest.fixture(scope="module")
def coordinator(root: Root) -> Signatures:
    return root.party("coordinator")


@pytest.fixture(scope="module")
def site(root: Root) -> Signatures:
    return root.party("h1")


def refusal(reader: Signatures, writer: Signatures, *, name: str | None, data: bytes = b"data") -> str:
    try:
        reader.check(data, writer.sign(b"data"), certificate=writer.certificate, name=name)
    except MessageError as error:
        return error.code
    return ""


def test_a_signature_of_a_party_is_accepted(coordinator: Signatures, site: Signatures) -> None:
    assert refusal(coordinator, site, name="h1") == ""
    assert refusal(coordinator, site, name=None) == ""
    assert refusal(site, coordinator, name=None) == ""


def test_other_bytes_another_key_or_no_signature_are_refused(coordinator: Signatures, site: Signatures) -> None:
    assert refusal(coordinator, site, name="h1", data=b"Data") == "signature"
    for signature in (coordinator.sign(b"data"), b"", bytes(256), site.sign(b"data")[:-1]):
        with pytest.raises(MessageError, match=r"^signature"):
            coordinator.check(b"data", signature, certificate=site.certificate, name="h1")


def test_a_certificate_issued_to_another_party_is_refused(coordinator: Signatures, site: Signatures) -> None:
    assert refusal(coordinator, site, name="h2") == "certificate"
    assert refusal(coordinator, site, name="") == "certificate"


def test_a_root_with_the_same_name_and_another_key_is_not_trusted(coordinator: Signatures) -> None:
    assert refusal(coordinator, Root().party("h1"), name="h1") == "certificate"


def test_a_certificate_that_is_not_valid_today_is_refused(coordinator: Signatures, root: Root) -> None:
    assert refusal(coordinator, root.party("h1", days=(-2, -1)), name="h1") == "certificate"
    assert refusal(coordinator, root.party("h1", days=(1, 2)), name="h1") == "certificate"


def test_an_authority_is_not_a_party(coordinator: Signatures, root: Root) -> None:
    assert refusal(coordinator, root.party("h1", ca=True), name="h1") == "certificate"


def test_a_site_cannot_issue_a_certificate_for_another_site(
    coordinator: Signatures, root: Root, site: Signatures
) -> None:
    forged = Root("h1").party("h2")
    assert refusal(coordinator, forged, name="h2") == "certificate"


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", b"\xff"])
def test_bytes_that_are_not_a_certificate_are_refused(coordinator: Signatures, pem: bytes) -> None:
    with pytest.raises(MessageError, match=r"^certificate"):
        coordinator.check(b"data", bytes(256), certificate=pem, name="h1")


def test_signatures_are_opened_from_files_and_bad_files_are_refused(
    tmp_path: Path, root: Root, site: Signatures
) -> None:
    key = rsa.generate_private_key(65537, 2048)
    files = {"key": pem_of(key), "certificate": root._issue("h1", key, ca=False, days=(-1, 1)), "root": root.pem}
    paths = {name: tmp_path / name for name in files}
    for name, content in files.items():
        paths[name].write_bytes(content)
    opened = open_signatures(**paths)
    assert refusal(site, opened, name="h1") == ""
    for name, content, complaint in (
        ("certificate", site.certificate, "does not belong"),
        ("key", b"no key", "cannot be read"),
        ("key", pem_of(ec.generate_private_key(ec.SECP256R1())), "not an RSA"),
    ):
        paths[name].write_bytes(content)
        with pytest.raises(FederationError, match=complaint):
            open_signatures(**paths)
        paths[name].write_bytes(files[name])
    paths["root"].unlink()
    with pytest.raises(FederationError, match="lacks"):
        open_signatures(**paths)
