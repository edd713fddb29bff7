"""Sealing keys: the secret of an epoch, its public parameters, and the search for misplaced secrets.

An epoch is the time between two rotations. The sites and the issuer hold its secret. All other parties know its public
parameters; their id distinguishes secrets and reveals nothing about them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from wardround.errors import KeyMaterialError, MessageError
from wardround.federation.message import Message, Value, decode, encode
from wardround.parsing import is_integer, parse_json

__all__ = [
    "SCHEMES",
    "SEALING_MARK",
    "VAULT_MARK",
    "PublicParameters",
    "SealingSecret",
    "find_secrets",
    "new_secret",
    "refuse_secrets",
    "vault_entry",
]

SCHEMES = ("bfv-standard", "bfv-compact", "ckks")
SEALING_MARK = "wardround-sealing-secret-2"
VAULT_MARK = "wardround-vault-1"

_ANY_SEALING_MARK = b"wardround-sealing-secret-"
_FIRST_FORMAT = "wardround-sealing-secret-1"  # of version 0.1, whose ciphertexts had no MAC
_LARGEST_SECRET = 16_000_000  # bytes
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{32}")
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-{5}")
_CHUNK = 1 << 22  # bytes of a file that are searched at a time
_LONGEST_MARK = 64  # bytes that a chunk repeats of the previous one
_SAVED = b"\x5e\xa1\x10"  # the first bytes of everything that SEAL saves
_KEY_START, _CONTEXT_START = 256, 16  # bytes that identify a key; bytes within which SEAL's data in a context starts


@dataclass(frozen=True)
class PublicParameters:
    """What all parties of a study may know about an epoch's secret."""

    study: str  # SHA-256 of the study file
    epoch: int
    scheme: str
    id: str
    oldest: int = 0  # earlier epochs have ended: nothing may be encrypted under them any more

    def __post_init__(self) -> None:
        good = _is_number(self.epoch, 1) and _is_number(self.oldest, 0) and self.oldest <= self.epoch
        named = _matches(_DIGEST, self.study) and _matches(_ID, self.id) and self.scheme in SCHEMES
        if not (good and named):
            raise MessageError("parameters", "these are not public parameters of an epoch")

    def to_values(self) -> dict[str, Value]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_values(cls, values: object) -> PublicParameters:
        """Return the parameters in plain values; raise a `MessageError` for missing or extra values."""
        if not isinstance(values, Mapping) or values.keys() != cls.__dataclass_fields__.keys():
            raise MessageError("parameters", "these are not public parameters of an epoch")
        return cls(**values)

    def to_json(self) -> bytes:
        """Return the content of the file that the coordinator imports."""
        return (json.dumps(self.to_values(), indent=2) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> PublicParameters:
        """Return the parameters in the content of such a file."""
        try:
            values = parse_json(data)
        except ValueError:
            raise MessageError("parameters", "these are not public parameters of an epoch") from None
        return cls.from_values(values)


@dataclass(frozen=True)
class SealingSecret:
    """The secret of an epoch; its holders encrypt and decrypt with it."""

    epoch: int
    scheme: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        size = len(self.secret) if isinstance(self.secret, bytes) else 0
        if not _is_number(self.epoch, 1) or self.scheme not in SCHEMES or not 16 <= size <= _LARGEST_SECRET:
            raise MessageError("secret", "this is not a secret of an epoch")

    @property
    def id(self) -> str:
        """Return the public id of the secret, 32 hexadecimal digits, which reveals nothing about it."""
        return self._derived(b"wardround-key-id-2", 16).hex()

    @property
    def group_key(self) -> bytes:
        """Return a key of 32 bytes from which all holders derive their other shared keys."""
        return self._derived(b"wardround-group-key-2", 32)

    def public(self, study: str, *, oldest: int = 0) -> PublicParameters:
        """Return what all parties of the study may know about the secret."""
        return PublicParameters(study, self.epoch, self.scheme, self.id, oldest)

    def to_bytes(self) -> bytes:
        """Return the secret as bytes, with a mark that makes a misplaced secret easy to find."""
        values: dict[str, Value] = {"kind": SEALING_MARK, "epoch": self.epoch, "scheme": self.scheme}
        return encode(Message(values, blobs={"secret": self.secret}))

    @classmethod
    def from_bytes(cls, data: bytes) -> SealingSecret:
        """Return the secret in the bytes of `to_bytes()`."""
        message = decode(data)
        if message.values.get("kind") == _FIRST_FORMAT:
            raise KeyMaterialError(
                "this sealing key has format 1, which this version does not read; "
                "make the kits and keys of the study again"
            )
        if message.values.get("kind") != SEALING_MARK or message.blobs.keys() != {"secret"} or message.arrays:
            raise MessageError("secret", "this is not a secret of an epoch")
        return cls(message.value("epoch", int), message.value("scheme", str), message.blobs["secret"])

    def _derived(self, label: bytes, length: int) -> bytes:
        info = b"%s\0%d\0%s" % (label, self.epoch, self.scheme.encode())
        return HKDF(hashes.SHA256(), length, salt=None, info=info).derive(self.secret)


def new_secret(scheme: str) -> bytes:
    """Return a fresh secret for a scheme, made by the library that will use it."""
    # Imported here: most parties never make a secret, and loading the library takes time.
    if scheme == "ckks":
        from wardround.secure_aggregation import ckks

        return ckks.new_secret()
    if scheme not in SCHEMES:
        raise KeyMaterialError(f"there is no scheme {scheme!r}; there are {', '.join(SCHEMES)}")
    from wardround.secure_aggregation.bfv import BfvParameters

    return BfvParameters(scheme.removeprefix("bfv-")).new_secret()


def vault_entry(epoch: int) -> str:
    """Return the name of an epoch's secret in a vault."""
    return f"epoch-{epoch}"


def refuse_secrets(place: Path | bytes | Message, *, own: Path | None = None) -> None:
    """Raise if there is a secret in a folder, or in received data, of a process that must hold none.

    `own` is the one private key that may be there. Files are named, never quoted.
    """
    if not isinstance(place, Path):
        for part in _parts(place):
            if kind := _secret_kind(part) or _seal_secret_kind(part):
                raise KeyMaterialError(f"{kind} was sent here, where no secret is allowed; have the keys rotated")
        return
    for name, kind in find_secrets(place, own=own):
        raise KeyMaterialError(f"{name} is {kind}, which is not allowed here; remove it, and have the keys rotated")


def find_secrets(folder: Path, *, own: Path | None = None) -> Iterator[tuple[str, str]]:
    """Yield the name of each file below a folder that holds a secret, and the kind of secret."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or (own is not None and path.resolve() == own.resolve()):
            continue
        if kind := _kind_of_file(path):
            yield path.relative_to(folder).as_posix(), kind


def _kind_of_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            kind, end = _seal_secret_kind(stream.read(_CHUNK)), b""
            stream.seek(0)
            while not kind and (chunk := stream.read(_CHUNK)):
                kind, end = _secret_kind(end + chunk), chunk[-_LONGEST_MARK:]
            return kind
    except OSError:
        raise KeyMaterialError(f"{path.name} cannot be read, so it cannot be searched for secrets") from None


def _parts(received: bytes | Message) -> Iterator[bytes]:
    """Yield the received bytes and, for a message, each part that could be a file."""
    if isinstance(received, bytes):
        yield received
        try:
            received = decode(received)
        except MessageError:
            return
    yield json.dumps(received.values).encode()
    yield from received.blobs.values()
    yield from (array.tobytes() for array in received.arrays.values())


def _secret_kind(data: bytes) -> str:
    """Return the kind of Wardround secret or private key that the bytes contain; empty if none."""
    if _ANY_SEALING_MARK in data:
        return "a sealing secret"
    if VAULT_MARK.encode() in data:
        return "a vault of secrets"
    return "a private key" if _PRIVATE_KEY.search(data) else ""


def _seal_secret_kind(data: bytes) -> str:
    """Return the kind of secret of the encryption library that the bytes begin with; empty if none.

    Only the beginning is searched: gigabytes of ciphertexts would sooner or later contain such bytes by chance.
    """
    start = data.find(_SAVED, 0, _CONTEXT_START)
    if start < 0:
        return ""
    from wardround.secure_aggregation.bfv import is_secret

    # A single key starts at the first byte. In a context other data comes first, and the key follows much later.
    seen = data[:_KEY_START] if start == 0 else data[:_CHUNK]
    return "a secret key of the sealing library" if is_secret(seen) else ""


def _is_number(value: Any, least: int) -> bool:
    return is_integer(value) and least <= value < 2**31


def _matches(pattern: re.Pattern[str], text: Any) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None
