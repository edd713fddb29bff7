"""Choices derived from a secret key: reproducible with the key, unpredictable without it."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from pathlib import Path

from wardround.errors import KeyMaterialError, UsageError

__all__ = ["KEY_BYTES", "SecretKey", "new_key", "read_key"]

KEY_BYTES = 32
_BETWEEN = b"\x1f"  # so that ("ab", "c") and ("a", "bc") differ


class SecretKey:
    """A secret key; its `child` keys reveal nothing about it or about each other."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def digest(self, *names: str) -> bytes:
        """Return 32 bytes that only the holder of the key can compute from these names."""
        parts = (name.encode("utf-8", "surrogatepass") for name in names)
        counted = _BETWEEN.join(b"%d:%b" % (len(part), part) for part in parts)
        return hmac.new(self._key, counted, sha256).digest()

    def child(self, *names: str) -> SecretKey:
        """Return the key of one patient, one purpose or one word."""
        return SecretKey(self.digest("child", *names))

    def number(self, below: int, *names: str) -> int:
        """Return a number from 0 to `below` - 1, uniformly distributed."""
        return int.from_bytes(self.digest("number", *names)[:16], "big") % below


def new_key() -> bytes:
    """Return a new random key."""
    return secrets.token_bytes(KEY_BYTES)


def read_key(path: Path) -> bytes:
    """Return the key in a file of 64 hexadecimal digits; create a private file with a new key if it is missing."""
    try:
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(new_key().hex() + "\n", encoding="ascii")
        found = bytes.fromhex(path.read_text(encoding="ascii"))
    except OSError as error:
        raise UsageError(f"{path.name} cannot be opened ({error.strerror or type(error).__name__})") from None
    except ValueError:
        found = b""
    if len(found) != KEY_BYTES:
        raise KeyMaterialError(f"{path.name} contains no key of 64 hexadecimal digits; name a new file to create one")
    return found
