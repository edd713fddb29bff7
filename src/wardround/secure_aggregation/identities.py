"""A site's identity while it runs: fresh keys to sign contributions and to agree on masks, and their public halves.

The private keys live in memory only and end with the process. In a networked study the site's certificate signs its
public keys; in studies on one machine, where every site is trusted, nothing signs them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Message, decode, encode
from wardround.secure_aggregation.exchange import is_site_name

__all__ = ["Certifier", "Identity", "PublicKeys", "check_public_keys", "check_signature"]

# A signature for one purpose is not valid for another.
_PUBLIC_KEYS = b"wardround-keys-1\x00"
_CONTRIBUTION = b"wardround-contribution-2\x00"

_KEY_LENGTH = 32
_LONGEST_SIGNATURE, _LONGEST_CERTIFICATE = 1024, 16_384  # bytes; RSA of 8192 bits, and several times a usual PEM
_TRUSTED_FOR = 3600  # seconds, after which valid public keys are checked again: certificates expire


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
        """The keys in `data`, unchecked beyond its shape; `check_card` says whether to believe it."""
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
    """A site's private keys, which cannot be read, and its public keys."""

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
            raise MessageError("public-keys", f"{keys.name}: its key agrees on no secret") from None


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
    """Check the same public keys once per period, because every exchange shows them; refusals are not cached."""
    certifier.check(_certified_bytes(keys), keys.signature, certificate=keys.certificate, name=keys.name)


def _certified_bytes(keys: PublicKeys) -> bytes:
    """Return what the certificate signs; the keys have fixed lengths, so the name is unambiguous."""
    return _PUBLIC_KEYS + keys.signing + keys.agreement + keys.name.encode("ascii")
