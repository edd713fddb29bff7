"""Signatures for tests without certificates."""

from __future__ import annotations

from hashlib import sha256

from wardround.errors import MessageError


class Initials:
    """Signatures that anyone could make, but not by accident: the signer and the digest of the data."""

    def __init__(self, name: str) -> None:
        self.certificate = name.encode()

    def sign(self, data: bytes) -> bytes:
        return self.certificate + sha256(data).digest()

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        if name is not None and certificate != name.encode():
            raise MessageError("certificate")
        if signature != certificate + sha256(data).digest():
            raise MessageError("signature")
