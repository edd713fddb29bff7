"""A vault: a file of named secrets, encrypted at rest.

The key is derived from a passphrase by scrypt, or is random and kept in the operating system's keyring. The file says
which, and AES-256-GCM encrypts its content and authenticates its header. It is replaced atomically, so a power cut
leaves either the old or the new file; several processes may change it, one after another.
"""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from wardround.errors import KeyMaterialError, MessageError
from wardround.federation.message import Message, Value, decode, encode
from wardround.secure_aggregation.keys.material import VAULT_MARK

__all__ = ["KeyringLock", "Lock", "PassphraseLock", "Vault", "check_private", "write_whole"]

_SERVICE = "wardround"  # the name of our keys in the keyring
_SHORTEST_PASSPHRASE = 12  # characters, for a new vault
_COST = 2**17  # scrypt's n: 128 MiB and a third of a second
_COSTS = (2**14, 2**20)  # the range that a file may demand
_BLOCK, _PARALLEL = 8, 1  # scrypt's r and p
_SALT = _CHECK = 16
_NONCE = 12
_KEY = 32

Facts = dict[str, Value]


class Lock(Protocol):
    """Provides the key of a vault."""

    def create(self) -> tuple[Facts, bytes]:
        """Return a new key, and the values that a vault stores to recover it."""

    def key(self, facts: Mapping[str, Value]) -> bytes:
        """Return the key for the stored values."""


@dataclass(frozen=True)
class PassphraseLock:
    """Derives the key from a passphrase, which is requested when it is needed."""

    passphrase: Callable[[], str]
    cost: int = _COST

    def create(self) -> tuple[Facts, bytes]:
        """Return the key for a new salt, and the salt."""
        passphrase = self.passphrase()
        if len(passphrase) < _SHORTEST_PASSPHRASE:
            raise KeyMaterialError(f"a passphrase has at least {_SHORTEST_PASSPHRASE} characters; choose a longer one")
        facts: Facts = {"lock": "passphrase", "salt": secrets.token_hex(_SALT), "cost": self.cost}
        return facts, _from_passphrase(passphrase, facts)

    def key(self, facts: Mapping[str, Value]) -> bytes:
        """Return the key for the salt in the vault."""
        if facts.get("lock") != "passphrase":
            return KeyringLock().key(facts)
        return _from_passphrase(self.passphrase(), facts)


@dataclass(frozen=True)
class KeyringLock:
    """Keeps a random key in the operating system's keyring of this account."""

    def create(self) -> tuple[Facts, bytes]:
        """Make a new entry in the keyring."""
        entry, key = secrets.token_hex(16), secrets.token_bytes(_KEY)
        with _as_keyring_error():
            import keyring

            keyring.set_password(_SERVICE, entry, base64.b64encode(key).decode())
        facts: Facts = {"lock": "keyring", "entry": entry}
        if self.key(facts) != key:
            raise KeyMaterialError("the keyring did not keep the key; use a passphrase")
        return facts, key

    def key(self, facts: Mapping[str, Value]) -> bytes:
        """Return the key of the entry that the vault names."""
        if facts.get("lock") != "keyring":
            raise KeyMaterialError("the vault has a passphrase; set WARDROUND_PASSPHRASE or name --passphrase-file")
        with _as_keyring_error():
            import keyring

            kept = keyring.get_password(_SERVICE, str(facts.get("entry")))
        try:
            key = base64.b64decode(kept or "", validate=True)
        except ValueError:
            key = b""
        if len(key) != _KEY:
            raise KeyMaterialError(
                "the keyring of this account has no key for the vault; run as the account that made it"
            )
        return key


class Vault:
    """Named secrets in an encrypted file; only the file's key stays in memory."""

    def __init__(self, path: Path, facts: Mapping[str, Value], key: bytes) -> None:
        self.path = path
        self._facts = dict(facts)
        self._key = key

    def __repr__(self) -> str:
        return f"Vault({self.path.name})"

    @classmethod
    def create(cls, path: Path, lock: Lock, held: Mapping[str, bytes] | None = None) -> Vault:
        """Make a new vault with these secrets."""
        _check_folder(path)
        if path.exists():
            raise KeyMaterialError(f"{path.name} exists already; an existing vault is not overwritten")
        facts, key = lock.create()
        check = _derived(key, b"wardround-vault-check-1").hex()
        made = cls(path, {"kind": VAULT_MARK, **facts, "check": check}, key)
        with made._locked():
            if path.exists():
                raise KeyMaterialError(f"{path.name} exists already; an existing vault is not overwritten")
            made._write(held or {})
        return made

    @classmethod
    def open(cls, path: Path, lock: Lock) -> Vault:
        """Open an existing vault after checking its mode, its folder and its key."""
        _check_folder(path)
        facts = _read(path).values
        key = lock.key(facts)
        if _derived(key, b"wardround-vault-check-1").hex() != facts.get("check"):
            raise KeyMaterialError(f"the passphrase does not open {path.name}: it is wrong, or the file was altered")
        vault = cls(path, facts, key)
        vault.read()
        return vault

    @property
    def version(self) -> tuple[int, int]:
        """Return a number that changes with each write by any process; (0, 0) if the file is gone."""
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0
        return found.st_ino, found.st_mtime_ns

    def read(self) -> dict[str, bytes]:
        """Return all secrets by name, as they are in the file now."""
        message = _read(self.path)
        if dict(message.values) != self._facts:
            raise KeyMaterialError(f"{self.path.name} was replaced by another vault; start again")
        try:
            opened = AESGCM(self._key).decrypt(message.blobs["nonce"], message.blobs["sealed"], self._header())
            return dict(decode(opened).blobs)
        except (InvalidTag, ValueError, MessageError):
            raise _altered(self.path) from None

    def get(self, name: str) -> bytes | None:
        """Return one secret, or None."""
        return self.read().get(name)

    def change(self, change: Callable[[dict[str, bytes]], None]) -> None:
        """Let `change` alter the secrets under a lock; if it raises, nothing is changed."""
        with self._locked():
            held = self.read()
            before = dict(held)
            change(held)
            if held != before:
                self._write(held)

    def _write(self, held: Mapping[str, bytes]) -> None:
        nonce = secrets.token_bytes(_NONCE)
        sealed = AESGCM(self._key).encrypt(nonce, encode(Message(blobs=held)), self._header())
        write_whole(self.path, encode(Message(self._facts, blobs={"nonce": nonce, "sealed": sealed})))

    def _header(self) -> bytes:
        return encode(Message(dict(sorted(self._facts.items()))))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A separate file, because each change replaces the vault's file.
        with _as_key_error(self.path):
            lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a private file atomically and force it to disk."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with _as_key_error(path):
        try:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_private(path: Path) -> None:
    """Raise a `KeyMaterialError` if any account other than the owner's can read or write a file."""
    with _as_key_error(path):
        found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise KeyMaterialError(f"{path.name} is not a regular file")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise KeyMaterialError(f"{path.name} can be read by others; only its owner may (chmod 600)")


def _check_folder(path: Path) -> None:
    with _as_key_error(path):
        mode = path.parent.stat().st_mode
    if mode & 0o022:
        raise KeyMaterialError(f"the folder of {path.name} can be written by others; only its owner may (chmod 700)")


def _read(path: Path) -> Message:
    """Return the header of the file and its encrypted content."""
    check_private(path)
    with _as_key_error(path):
        data = path.read_bytes()
    try:
        message = decode(data)
    except MessageError:
        raise _altered(path) from None
    if message.values.get("kind") != VAULT_MARK or message.blobs.keys() != {"nonce", "sealed"} or message.arrays:
        raise _altered(path)
    return message


def _altered(path: Path) -> KeyMaterialError:
    return KeyMaterialError(f"{path.name} was altered or is not a vault; restore a copy of it")


def _from_passphrase(passphrase: str, facts: Mapping[str, Value]) -> bytes:
    salt, cost = facts.get("salt"), facts.get("cost")
    good = isinstance(cost, int) and _COSTS[0] <= cost <= _COSTS[1] and cost.bit_count() == 1
    try:
        salted = bytes.fromhex(salt) if isinstance(salt, str) else b""
    except ValueError:
        salted = b""
    if not isinstance(cost, int) or not good or len(salted) != _SALT:
        raise KeyMaterialError("the vault was altered: its salt or its scrypt cost is missing or invalid")
    return Scrypt(salt=salted, length=_KEY, n=cost, r=_BLOCK, p=_PARALLEL).derive(passphrase.encode())


def _derived(key: bytes, label: bytes) -> bytes:
    return HKDF(hashes.SHA256(), _CHECK, salt=None, info=label).derive(key)


@contextmanager
def _as_keyring_error() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError:
        raise KeyMaterialError("the keyring needs a package that is not here: install wardround[keyring]") from None
    except Exception as error:  # each operating system's keyring raises its own errors
        raise KeyMaterialError(f"the keyring cannot be used ({type(error).__name__}); use a passphrase") from None


@contextmanager
def _as_key_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KeyMaterialError(f"{path.name} cannot be used ({error.strerror or type(error).__name__})") from None
