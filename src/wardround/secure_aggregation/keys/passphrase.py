"""Where the passphrase of a vault comes from: a file, the environment, or the terminal."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from pathlib import Path

from wardround.errors import KeyMaterialError
from wardround.secure_aggregation.keys.vault import KeyringLock, Lock, PassphraseLock, Vault, check_private

__all__ = ["FILE_VARIABLE", "VARIABLE", "export_passphrase", "lock_from", "passphrase_is_set"]

VARIABLE = "WARDROUND_PASSPHRASE"
FILE_VARIABLE = "WARDROUND_PASSPHRASE_FILE"


def lock_from(file: Path | None = None, *, keyring: bool = False, ask: bool = True) -> Lock:
    """Return the lock of a vault: the keyring for a new one if requested, otherwise the passphrase.

    An existing vault records whether the keyring has its key. The terminal is asked only if a passphrase is needed and
    `ask` is true.
    """
    return KeyringLock() if keyring else PassphraseLock(lambda: _read_passphrase(file, ask=ask))


def passphrase_is_set() -> bool:
    """Return whether the environment holds the passphrase."""
    return bool(os.environ.get(VARIABLE) or os.environ.get(FILE_VARIABLE))


def export_passphrase(file: Path | None, vault: Path) -> None:
    """Open the vault, if there is one, with a passphrase from the terminal, so that child processes can open it too.

    They find the passphrase in their environment, which no other account can read.
    """
    if file is not None:
        check_private(file)
        os.environ[FILE_VARIABLE] = str(file.resolve())
    if vault.exists():
        Vault.open(vault, PassphraseLock(_read_and_export))


def _read_and_export() -> str:
    passphrase = _read_passphrase(None, ask=True)
    if not passphrase_is_set():
        os.environ[VARIABLE] = passphrase
    return passphrase


def _read_passphrase(file: Path | None, *, ask: bool) -> str:
    named = os.environ.get(FILE_VARIABLE)
    if file is None and named:
        file = Path(named)
    if file is not None:
        return _read(file)
    if given := os.environ.get(VARIABLE):
        return given
    if ask and sys.stdin is not None and sys.stdin.isatty():
        return getpass("Passphrase of the vault: ")
    raise KeyMaterialError(f"a vault needs a passphrase: set {VARIABLE}, or name a file with --passphrase-file")


def _read(file: Path) -> str:
    check_private(file)
    try:
        # An editor adds one newline at the end; everything else belongs to the passphrase.
        text = file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError):
        raise KeyMaterialError(f"{file.name} cannot be read as text; it must hold only the passphrase") from None
    if not text:
        raise KeyMaterialError(f"{file.name} is empty; it must hold only the passphrase")
    return text
