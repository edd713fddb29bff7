"""Accepted keys and certificates; tests/attacks/test_weak_keys.py has those that are refused."""

from __future__ import annotations

import pytest

pytest.importorskip("cryptography", reason="certificates need wardround[sealed]")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from tests.secure_aggregation.authority import Authority, rsa_key

from wardround.secure_aggregation.identities import weakness, weakness_of_certificate, weakness_of_request

NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "harbour")])
BUILDER = x509.CertificateSigningRequestBuilder().subject_name(NAME)


def test_certificates_of_a_study_have_no_weakness() -> None:
    authority = Authority()
    assert weakness_of_certificate(authority.pem) == ""
    assert weakness_of_certificate(authority.certificate("harbour", rsa_key(1))) == ""


@pytest.mark.parametrize("digest", [hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_requests_signed_with_sha_2_have_no_weakness(digest: hashes.SHA256 | hashes.SHA384 | hashes.SHA512) -> None:
    asked = BUILDER.sign(rsa_key(1), digest)
    assert weakness_of_request(asked.public_bytes(serialization.Encoding.PEM)) == ""


def test_a_shorter_hash_is_a_weakness() -> None:
    assert weakness(BUILDER.sign(rsa_key(1), hashes.SHA224())).startswith("is signed with another hash than SHA-256")
    assert weakness(BUILDER.sign(rsa_key(1), hashes.SHA3_256())).startswith("is signed with another hash than SHA-256")


@pytest.mark.parametrize(("bits", "fit"), [(1024, False), (2048, True), (3072, True)])
def test_keys_by_their_size(bits: int, fit: bool) -> None:
    asked = BUILDER.sign(rsa.generate_private_key(65537, bits), hashes.SHA256())
    assert (weakness(asked) == "") is fit


def test_invalid_pem_raises_instead_of_being_a_weakness() -> None:
    for read in (weakness_of_certificate, weakness_of_request):
        with pytest.raises(ValueError):
            read(b"no PEM")
