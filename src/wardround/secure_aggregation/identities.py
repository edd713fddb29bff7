"""Who a site is while it runs: fresh keys to sign contributions and to agree on masks, and the keys that shows them.

The keys live in memory only and end with the process. Where the study has certificates, a site's certificate vouches
for its keys; in studies on one machine, where every site is trusted to be itself, nothing does.
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

# What is signed for one purpose means nothing for another.
_PUBLIC_KEYS = b"wardround-keys-1\x00"
_CONTRIBUTION = b"wardround-contribution-2\x00"

_KEY_LENGTH = 32
_LONGEST_SIGNATURE, _LONGEST_CERTIFICATE = 1024, 16_384  # bytes; RSA of 8192 bits, and several times a usual PEM
_TRUSTED_FOR = 3600  # seconds, after which a keys that was found good is checked anew: certificates run out


@dataclass(frozen=True)
class PublicKeys:
    """A site's public keys under its name, with the signature of its certificate where the study has certificates."""

    name: SiteId
    signing: bytes  # Ed25519
    agreement: bytes  # X25519
    signature: bytes = b""
    certificate: bytes = b""  # PEM

    def __post_init__(self) -> None:
        if not is_site_name(self.name):
            raise MessageError("public-keys", "is made out to a name that no site may have")
        if len(self.signing) != _KEY_LENGTH or len(self.agreement) != _KEY_LENGTH:
            raise MessageError("public-keys", f"{self.name}: a public key has {_KEY_LENGTH} bytes")
        if len(self.signature) > _LONGEST_SIGNATURE or len(self.certificate) > _LONGEST_CERTIFICATE:
            raise MessageError("public-keys", f"{self.name}: signature or certificate are too long to be one")

    def to_bytes(self) -> bytes:
        """As `from_bytes` reads it."""
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
            raise MessageError("public-keys", "has other parts than a keys")
        return cls(name, *(message.blobs[part] for part in parts))


class Certifier(Protocol):
    """What vouches for public_keys, as `privacy.signatures.Signatures` does."""

    def __hash__(self) -> int: ...

    @property
    def certificate(self) -> bytes:
        """One's own, as PEM."""

    def sign(self, data: bytes) -> bytes:
        """The signature of the certificate's holder."""

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        """Refuse, with a `MessageError`, what the holder of a certificate made out to `name` did not sign."""


class Identity:
    """A site's private keys, which cannot be read out of it, and its keys."""

    def __init__(self, keys: PublicKeys, *, signing: Ed25519PrivateKey, agreement: X25519PrivateKey) -> None:
        self.public_keys = keys
        self._signing = signing
        self._agreement = agreement

    @classmethod
    def new(cls, name: SiteId, certifier: Certifier | None) -> Identity:
        """Fresh keys, vouched for by the certifier where there is one."""
        signing, agreement = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        keys = PublicKeys(name, signing.public_key().public_bytes_raw(), agreement.public_key().public_bytes_raw())
        if certifier is not None:
            signature = certifier.sign(_vouched(keys))
            keys = PublicKeys(name, keys.signing, keys.agreement, signature, certifier.certificate)
        return cls(keys, signing=signing, agreement=agreement)

    def __repr__(self) -> str:
        return f"Identity({self.public_keys.name})"

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`, as `check_signature` takes it."""
        return self._signing.sign(_CONTRIBUTION + data)

    def agree(self, keys: PublicKeys) -> bytes:
        """The secret that this site and the keys's share with nobody else; keys are derived from it, it is none."""
        try:
            return self._agreement.exchange(X25519PublicKey.from_public_bytes(keys.agreement))
        except ValueError:  # a point of small order: everybody would know the secret
            raise MessageError("public-keys", f"{keys.name}: its key gives no secret") from None


def check_public_keys(keys: PublicKeys, name: SiteId, certifier: Certifier | None) -> None:
    """Refuse, with a `MessageError`, a keys that is not the one of the site called `name`.

    Without a certifier nobody vouches for a keys, and one that says otherwise is of another study.
    """
    if keys.name != name:
        raise MessageError("public-keys", "is made out to another site")
    if certifier is not None:
        _check_vouched(keys, certifier, int(time.monotonic() // _TRUSTED_FOR))
    elif keys.signature or keys.certificate:
        raise MessageError("public-keys", f"{name}: is certified, and this study has no certificates to check it by")


def check_signature(keys: PublicKeys, data: bytes, signature: bytes) -> None:
    """Refuse, with a `MessageError`, what the keys's holder did not sign by `Identity.sign`."""
    try:
        Ed25519PublicKey.from_public_bytes(keys.signing).verify(signature, _CONTRIBUTION + data)
    except (InvalidSignature, ValueError):
        raise MessageError("signature", f"{keys.name}: was made by another key or over other bytes") from None


@lru_cache(maxsize=4096)
def _check_vouched(keys: PublicKeys, certifier: Certifier, period: int) -> None:
    """Once a period and keys: every exchange shows the same public_keys. What is refused is not remembered."""
    certifier.check(_vouched(keys), keys.signature, certificate=keys.certificate, name=keys.name)


def _vouched(keys: PublicKeys) -> bytes:
    """What the certificate signs; the keys' lengths are fixed, so that the name is told from them."""
    return _PUBLIC_KEYS + keys.signing + keys.agreement + keys.name.encode("ascii")
