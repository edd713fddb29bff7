"""Identities of parties: certificates and their signatures, and the fresh keys of a running site.

In a networked study each party signs with the key of its certificate, which the study's root issued. FLARE makes keys
of 2048 bits and signs with SHA-256. Another party could send a weaker request or certificate, so `weakness` checks key
and hash of both. In addition a site has fresh keys to sign contributions and to agree on masks. These keys exist only
in memory and are lost when the process ends. The site's certificate signs the public keys; in studies on one machine,
where every site is trusted, they are not signed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from wardround.errors import FederationError, MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Message, decode, encode
from wardround.secure_aggregation.exchange import is_site_name

__all__ = [
    "Certifier",
    "Identity",
    "PublicKeys",
    "Signatures",
    "check_public_keys",
    "check_signature",
    "is_authority",
    "open_signatures",
    "weakness",
    "weakness_of_certificate",
    "weakness_of_request",
]

# A signature for one purpose is not valid for another.
_PUBLIC_KEYS = b"wardround-keys-1\x00"
_CONTRIBUTION = b"wardround-contribution-2\x00"

_KEY_LENGTH = 32
_LONGEST_SIGNATURE, _LONGEST_CERTIFICATE = 1024, 16_384  # bytes; RSA of 8192 bits, and several times a usual PEM
_TRUSTED_FOR = 3600  # seconds after which valid public keys are checked again, because certificates expire

_CONTEXT = b"wardround-1\x00"  # the same keys serve TLS; the prefix separates the two uses
_HASH = hashes.SHA256()
_PADDING = padding.PSS(mgf=padding.MGF1(_HASH), salt_length=_HASH.digest_size)

_FEWEST_BITS, _MOST_BITS = 2048, 8192  # a signature of a longer key takes long to verify
_SMALLEST_EXPONENT = 65537
_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)


@dataclass(frozen=True)
class PublicKeys:
    """A site's name and public keys, signed by its certificate if the study has certificates."""

    name: SiteId
    signing: bytes  # Ed25519
    agreement: bytes  # X25519
    signature: bytes = b""
    certificate: bytes = b""  # PEM

    def __post_init__(self) -> None:
        if not is_site_name(self.name):
            raise MessageError("public-keys", "name a site that cannot exist")
        if len(self.signing) != _KEY_LENGTH or len(self.agreement) != _KEY_LENGTH:
            raise MessageError("public-keys", f"{self.name}: a public key has {_KEY_LENGTH} bytes")
        if len(self.signature) > _LONGEST_SIGNATURE or len(self.certificate) > _LONGEST_CERTIFICATE:
            raise MessageError("public-keys", f"{self.name}: the signature or the certificate is too long")

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads."""
        keys = {"signing": self.signing, "agreement": self.agreement}
        return encode(
            Message({"name": self.name}, {}, keys | {"signature": self.signature, "certificate": self.certificate})
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> PublicKeys:
        """Return the keys in `data`; only the form is checked here, `check_public_keys` checks the rest."""
        try:
            message = decode(data)
        except MessageError as error:
            raise MessageError("public-keys", f"cannot be read ({error.code})") from None
        name = message.values.get("name")
        parts = ("signing", "agreement", "signature", "certificate")
        if len(message.values) != 1 or not isinstance(name, str) or message.arrays or {*message.blobs} != {*parts}:
            raise MessageError("public-keys", "have other parts than public keys")
        return cls(name, *(message.blobs[part] for part in parts))


class Certifier(Protocol):
    """Signs and checks public keys, as `Signatures` does."""

    def __hash__(self) -> int: ...

    @property
    def certificate(self) -> bytes:
        """Return this party's own certificate, as PEM."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature of the certificate's holder."""

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        """Raise a `MessageError` unless the holder of a certificate issued to `name` signed `data`."""


class Identity:
    """A site's public keys, and the private keys, which are not accessible."""

    def __init__(self, keys: PublicKeys, *, signing: Ed25519PrivateKey, agreement: X25519PrivateKey) -> None:
        self.public_keys = keys
        self._signing = signing
        self._agreement = agreement

    @classmethod
    def new(cls, name: SiteId, certifier: Certifier | None) -> Identity:
        """Generate fresh keys, signed by the certifier if there is one."""
        signing, agreement = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        keys = PublicKeys(name, signing.public_key().public_bytes_raw(), agreement.public_key().public_bytes_raw())
        if certifier is not None:
            signature = certifier.sign(_certified_bytes(keys))
            keys = PublicKeys(name, keys.signing, keys.agreement, signature, certifier.certificate)
        return cls(keys, signing=signing, agreement=agreement)

    def __repr__(self) -> str:
        return f"Identity({self.public_keys.name})"

    def sign(self, data: bytes) -> bytes:
        """Return the signature over `data` that `check_signature` verifies."""
        return self._signing.sign(_CONTRIBUTION + data)

    def agree(self, keys: PublicKeys) -> bytes:
        """Return the secret that only this site and the holder of `keys` know; keys are derived from it."""
        try:
            return self._agreement.exchange(X25519PublicKey.from_public_bytes(keys.agreement))
        except ValueError:  # a point of small order: the secret would be public
            raise MessageError("public-keys", f"{keys.name}: no secret can be agreed with its key") from None


def check_public_keys(keys: PublicKeys, name: SiteId, certifier: Certifier | None) -> None:
    """Raise a `MessageError` unless these are the public keys of the site called `name`.

    Without a certifier public keys are unsigned; signed ones belong to another study.
    """
    if keys.name != name:
        raise MessageError("public-keys", "belong to another site")
    if certifier is not None:
        _check_certified(keys, certifier, int(time.monotonic() // _TRUSTED_FOR))
    elif keys.signature or keys.certificate:
        raise MessageError("public-keys", f"{name}: are signed by a certificate, but this study has none to check it")


def check_signature(keys: PublicKeys, data: bytes, signature: bytes) -> None:
    """Raise a `MessageError` unless the holder of `keys` signed `data` with `Identity.sign`."""
    try:
        Ed25519PublicKey.from_public_bytes(keys.signing).verify(signature, _CONTRIBUTION + data)
    except (InvalidSignature, ValueError):
        raise MessageError("signature", f"{keys.name}: was made by another key or over other bytes") from None


@lru_cache(maxsize=4096)
def _check_certified(keys: PublicKeys, certifier: Certifier, period: int) -> None:
    """Check public keys once per period, because every exchange sends them again; refusals are not cached."""
    certifier.check(_certified_bytes(keys), keys.signature, certificate=keys.certificate, name=keys.name)


def _certified_bytes(keys: PublicKeys) -> bytes:
    """Return what the certificate signs; the keys have fixed lengths, so the name is unambiguous."""
    return _PUBLIC_KEYS + keys.signing + keys.agreement + keys.name.encode("ascii")


class Signatures:
    """Signs with a party's own key; verifies what others signed, up to the root of the study."""

    def __init__(self, *, key: bytes, certificate: bytes, root: bytes) -> None:
        self.certificate = certificate
        self._root = root
        try:
            loaded = load_pem_private_key(key, password=None)
        except (ValueError, TypeError):
            raise FederationError("the kit's key cannot be read; make the kit again") from None
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise FederationError("the kit's key is not an RSA key; make the kit again")
        self._key = loaded
        if _loaded(certificate).public_key() != self._key.public_key():
            raise FederationError("the kit's certificate does not belong to its key; make the kit again")
        for what, pem in (("the kit's certificate", certificate), ("the study's root", root)):
            if weak := weakness(_loaded(pem)):
                raise FederationError(f"{what} {weak}; make the kit again")

    def sign(self, data: bytes) -> bytes:
        """Return the signature over `data`, RSA-PSS with SHA-256."""
        return self._key.sign(_CONTEXT + data, _PADDING, _HASH)

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        """Raise a `MessageError` unless the holder of `certificate` signed `data`.

        The certificate must be valid today, issued by the root to `name`, have a strong key, and not be a root itself.
        With `name` None any name is accepted, for a certificate that is already trusted.
        """
        key = _trusted_key(certificate, self._root, name)
        loaded = _loaded(certificate)
        if not loaded.not_valid_before_utc <= datetime.now(UTC) <= loaded.not_valid_after_utc:
            raise MessageError("certificate", "is not valid today")
        try:
            key.verify(signature, _CONTEXT + data, _PADDING, _HASH)
        except InvalidSignature:
            raise MessageError("signature", "was made by another key or over other bytes") from None


def open_signatures(*, key: Path, certificate: Path, root: Path) -> Signatures:
    """Open the signatures of a kit from its PEM files."""
    try:
        return Signatures(key=key.read_bytes(), certificate=certificate.read_bytes(), root=root.read_bytes())
    except OSError as error:
        raise FederationError(f"the kit lacks a key or certificate ({error.strerror}); make the kit again") from None


@lru_cache(maxsize=4096)
def _loaded(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise MessageError("certificate", "is not a certificate") from None


@lru_cache(maxsize=4096)
def _trusted_key(pem: bytes, root: bytes, name: str | None) -> rsa.RSAPublicKey:
    """Return the key of a certificate that the root issued to `name`; its dates are not checked."""
    certificate = _loaded(pem)
    if weak := weakness(certificate):
        raise MessageError("certificate", weak)
    try:
        certificate.verify_directly_issued_by(_loaded(root))
    except (ValueError, TypeError, InvalidSignature):
        raise MessageError("certificate", "another root issued it") from None
    names = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if name is not None and names != [name]:
        raise MessageError("certificate", "was issued to another party")
    key = certificate.public_key()
    if is_authority(certificate) or not isinstance(key, rsa.RSAPublicKey):
        raise MessageError("certificate", "is not a certificate of a party")
    return key


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether a certificate may issue others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def weakness(signed: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return why a certificate or request must not be trusted, as the rest of a sentence; empty if it may be."""
    try:
        key = signed.public_key()
        digest = signed.signature_hash_algorithm
    except (ValueError, UnsupportedAlgorithm):
        return "has a key or a signature of an unknown kind; the study's are RSA with SHA-256"
    if not isinstance(key, rsa.RSAPublicKey):
        return "has no RSA key; keys of a study are RSA"
    if not _FEWEST_BITS <= key.key_size <= _MOST_BITS:
        return f"has an RSA key of {key.key_size} bits; keys have {_FEWEST_BITS} to {_MOST_BITS}"
    exponent = key.public_numbers().e
    if exponent < _SMALLEST_EXPONENT:
        return f"has an RSA key with the exponent {exponent}; keys have {_SMALLEST_EXPONENT}"
    if not isinstance(digest, _HASHES):
        return "is signed with another hash than SHA-256, SHA-384 or SHA-512"
    return ""


def weakness_of_certificate(pem: bytes) -> str:
    """Return the weakness of a certificate in PEM; raise a `ValueError` if it is none."""
    return weakness(x509.load_pem_x509_certificate(pem))


def weakness_of_request(pem: bytes) -> str:
    """Return the weakness of a request in PEM; raise a `ValueError` if it is none."""
    return weakness(x509.load_pem_x509_csr(pem))
