from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.x509.oid import NameOID

from wardround.errors import MessageError
from wardround.federation.message import Message, decode, encode
from wardround.secure_aggregation import identities
from wardround.secure_aggregation.exchange import is_site_name
from wardround.secure_aggregation.identities import Identity, PublicKeys, Signatures, check_public_keys, check_signature

NOW = datetime.now(UTC)


def certificate_of(name: str, key: rsa.RSAPrivateKey, *, issuer: rsa.RSAPrivateKey, ca: bool = False) -> bytes:
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "study")]),
        subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=NOW - timedelta(1),
        not_valid_after=NOW + timedelta(1),
    ).add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return builder.sign(issuer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def parties() -> dict[str, Signatures]:
    """Return the signatures of h1, h2 and the coordinator under one root."""
    root = rsa.generate_private_key(65537, 2048)
    trusted = certificate_of("study", root, issuer=root, ca=True)
    found = {}
    for name in ("h1", "h2", "coordinator"):
        key = rsa.generate_private_key(65537, 2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        found[name] = Signatures(key=pem, certificate=certificate_of(name, key, issuer=root), root=trusted)
    return found


class Counting:
    """Accepts everything and counts its calls."""

    certificate = b"mine"

    def __init__(self) -> None:
        self.asked = 0

    def sign(self, data: bytes) -> bytes:
        return b"signed"

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        self.asked += 1
        if signature != b"signed":
            raise MessageError("signature")


def refusal(keys: PublicKeys, name: str, certifier: identities.Certifier | None) -> str:
    try:
        check_public_keys(keys, name, certifier)
    except MessageError as error:
        return error.code
    return ""


def test_public_keys_survive_a_round_trip(parties: dict[str, Signatures]) -> None:
    for certifier in (None, parties["h1"]):
        keys = Identity.new("h1", certifier).public_keys
        assert PublicKeys.from_bytes(keys.to_bytes()) == keys
        assert (len(keys.signing), len(keys.agreement)) == (32, 32)
        assert bool(keys.signature) == bool(keys.certificate) == (certifier is not None)


@pytest.mark.parametrize(
    "changed",
    [
        {"name": ""},
        {"name": "h1\n"},
        {"name": "Höhe"},
        {"name": "\ud800"},
        {"name": "h" * 64},
        {"name": "coordinator"},
        {"name": "keys"},
        {"signing": bytes(31)},
        {"signing": bytes(33)},
        {"agreement": b""},
        {"signature": bytes(1025)},
        {"certificate": bytes(16_385)},
    ],
)
def test_invalid_public_keys_are_refused(changed: dict[str, Any]) -> None:
    parts = {"name": "h1", "signing": bytes(32), "agreement": bytes(32), "signature": b"", "certificate": b""}
    PublicKeys.from_bytes(encode(Message({"name": parts.pop("name")}, {}, parts)))  # type: ignore[dict-item, arg-type]
    parts = {"name": "h1"} | parts | changed
    with pytest.raises(MessageError, match=r"^public-keys"):
        PublicKeys.from_bytes(encode(Message({"name": parts.pop("name")}, {}, parts)))  # type: ignore[dict-item, arg-type]


def test_bytes_with_other_parts_than_public_keys_are_refused() -> None:
    good = decode(Identity.new("h1", None).public_keys.to_bytes())
    others = [
        Message({**good.values, "round": 1}, {}, good.blobs),
        Message({"name": 1}, {}, good.blobs),
        Message({}, {}, good.blobs),
        Message(good.values, {}, {**good.blobs, "more": b""}),
        Message(good.values, {}, {name: blob for name, blob in good.blobs.items() if name != "signature"}),
    ]
    for data in (b"", b"WRM1", *map(encode, others)):
        with pytest.raises(MessageError) as caught:
            PublicKeys.from_bytes(data)
        assert caught.value.code == "public-keys"


@pytest.mark.parametrize("name", ["h1", "st-mary", "A.b_c-9", "9", "h" * 63])
def test_valid_site_names(name: str) -> None:
    assert is_site_name(name)


@pytest.mark.parametrize("name", ["", "-h", "h/1", "h 1", "h1\x00", "h" * 64, "admin", "client", "server"])
def test_invalid_site_names(name: str) -> None:
    assert not is_site_name(name)


def test_two_sites_agree_on_a_secret_and_a_third_does_not() -> None:
    one, two, three = (Identity.new(name, None) for name in ("h1", "h2", "h3"))
    secret = one.agree(two.public_keys)
    assert secret == two.agree(one.public_keys)
    assert len(secret) == 32
    assert secret not in (three.agree(one.public_keys), three.agree(two.public_keys), one.agree(three.public_keys))


def test_a_key_that_makes_the_agreed_secret_public_is_refused() -> None:
    # The points 0 and 1 of Curve25519 have small order: any private key times them is 0.
    for point in (bytes(32), b"\x01" + bytes(31)):
        with pytest.raises(MessageError, match=r"^public-keys: h2"):
            Identity.new("h1", None).agree(PublicKeys("h2", bytes(32), point))


def test_each_identity_is_fresh() -> None:
    one, other = Identity.new("h1", None), Identity.new("h1", None)
    assert one.public_keys.signing != other.public_keys.signing
    assert one.public_keys.agreement != other.public_keys.agreement


def test_a_signature_holds_for_its_public_keys_and_bytes_only() -> None:
    one, other = Identity.new("h1", None), Identity.new("h1", None)
    signature = one.sign(b"data")
    check_signature(one.public_keys, b"data", signature)
    for keys, data, given in (
        (one.public_keys, b"Data", signature),
        (other.public_keys, b"data", signature),
        (one.public_keys, b"data", signature[:-1]),
        (one.public_keys, b"data", b""),
        (one.public_keys, b"data", bytes([signature[0] ^ 1]) + signature[1:]),
        (replace(one.public_keys, signing=b"\xff" * 32), b"data", signature),
    ):
        with pytest.raises(MessageError) as caught:
            check_signature(keys, data, given)
        assert caught.value.code == "signature"


def test_a_contribution_is_signed_under_its_own_label() -> None:
    one = Identity.new("h1", None)
    key = Ed25519PublicKey.from_public_bytes(one.public_keys.signing)
    key.verify(one.sign(b"data"), b"wardround-contribution-2\x00data")


def test_certified_public_keys_are_accepted_by_every_party_with_the_root(parties: dict[str, Signatures]) -> None:
    keys = PublicKeys.from_bytes(Identity.new("h1", parties["h1"]).public_keys.to_bytes())
    assert refusal(keys, "h1", parties["h1"]) == ""
    assert refusal(keys, "h1", parties["h2"]) == ""
    assert refusal(keys, "h2", parties["h2"]) == "public-keys"


def test_altered_public_keys_are_refused(parties: dict[str, Signatures]) -> None:
    keys = Identity.new("h1", parties["h1"]).public_keys
    other = Identity.new("h2", parties["h2"]).public_keys
    assert refusal(replace(keys, signing=other.signing), "h1", parties["h2"]) == "signature"
    assert refusal(replace(keys, agreement=other.agreement), "h1", parties["h2"]) == "signature"
    assert refusal(replace(keys, signing=keys.agreement, agreement=keys.signing), "h1", parties["h2"]) == "signature"
    assert refusal(replace(keys, signature=other.signature), "h1", parties["h2"]) == "signature"
    assert refusal(replace(keys, name="h2"), "h2", parties["h2"]) == "certificate"
    assert refusal(replace(keys, certificate=other.certificate), "h1", parties["h2"]) == "certificate"
    assert refusal(replace(keys, certificate=b"", signature=b""), "h1", parties["h2"]) == "certificate"


def test_a_site_cannot_certify_public_keys_of_another_site(parties: dict[str, Signatures]) -> None:
    assert refusal(Identity.new("h1", parties["h2"]).public_keys, "h1", parties["h1"]) == "certificate"


def test_a_coordinator_is_never_a_site(parties: dict[str, Signatures]) -> None:
    with pytest.raises(MessageError, match=r"^public-keys"):
        Identity.new("coordinator", parties["coordinator"])


def test_a_signed_request_does_not_pass_as_public_keys(parties: dict[str, Signatures]) -> None:
    # The same certificate signs a site's answers: over the bytes without the label of public keys it must not do.
    keys = Identity.new("h1", parties["h1"]).public_keys
    other = parties["h1"].sign(keys.signing + keys.agreement + b"h1")
    assert refusal(replace(keys, signature=other), "h1", parties["h2"]) == "signature"


def test_without_certificates_signed_public_keys_are_refused(parties: dict[str, Signatures]) -> None:
    keys = Identity.new("h1", None).public_keys
    assert refusal(keys, "h1", None) == ""
    assert refusal(keys, "h2", None) == "public-keys"
    assert refusal(replace(keys, signature=b"s"), "h1", None) == "public-keys"
    assert refusal(replace(keys, certificate=b"c"), "h1", None) == "public-keys"
    assert refusal(keys, "h1", parties["h1"]) == "certificate"


def test_the_same_public_keys_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [7200.0]
    monkeypatch.setattr(identities.time, "monotonic", lambda: clock[0])  # type: ignore[attr-defined]
    certifier, other = Counting(), Counting()
    keys = Identity.new("h1", certifier).public_keys
    for _ in range(3):
        check_public_keys(PublicKeys.from_bytes(keys.to_bytes()), "h1", certifier)
    assert certifier.asked == 1
    check_public_keys(keys, "h1", other)
    assert other.asked == 1
    clock[0] += 3600  # a certificate may have run out since
    check_public_keys(keys, "h1", certifier)
    assert certifier.asked == 2


def test_refused_public_keys_are_not_remembered_as_good() -> None:
    certifier = Counting()
    forged = replace(Identity.new("h1", certifier).public_keys, signature=b"forged")
    assert [refusal(forged, "h1", certifier) for _ in range(2)] == ["signature", "signature"]
    assert certifier.asked == 2


def test_the_representation_shows_no_key() -> None:
    signing, agreement = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    keys = PublicKeys("h1", signing.public_key().public_bytes_raw(), agreement.public_key().public_bytes_raw())
    shown = repr(Identity(keys, signing=signing, agreement=agreement))
    assert shown == "Identity(h1)"
    for key in (signing.private_bytes_raw(), agreement.private_bytes_raw()):
        assert key.hex() not in shown and repr(key) not in shown
        assert key not in keys.to_bytes()
