"""The sources of a passphrase in their order, and how child processes of a site get it."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from tests.secure_aggregation.authority import PASSPHRASE, lock

from wardround.errors import KeyMaterialError
from wardround.secure_aggregation.keys import passphrase
from wardround.secure_aggregation.keys.passphrase import (
    FILE_VARIABLE,
    VARIABLE,
    export_passphrase,
    lock_from,
    passphrase_is_set,
)
from wardround.secure_aggregation.keys.vault import KeyringLock, PassphraseLock, Vault


@pytest.fixture(autouse=True)
def nobody_and_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for name in (VARIABLE, FILE_VARIABLE):
        monkeypatch.setenv(name, "x")  # so that what a test sets is undone
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "phrase"
    path.write_text("from the file  \n")
    path.chmod(0o600)
    return path


def found(file: Path | None = None, *, ask: bool = True) -> str:
    made = lock_from(file, ask=ask)
    assert isinstance(made, PassphraseLock)
    return made.passphrase()


def somebody_says(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(passphrase, "getpass", lambda _: words)


def test_a_file_comes_before_the_environment_and_that_before_the_terminal(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody_says("typed", monkeypatch)
    assert found() == "typed"
    monkeypatch.setenv(VARIABLE, "from the environment")
    assert found() == "from the environment" and passphrase_is_set()
    assert found(file) == "from the file  "  # its blanks belong to it
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    assert found() == "from the file  "


def test_the_terminal_is_not_asked_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    somebody_says("typed", monkeypatch)
    with pytest.raises(KeyMaterialError, match=r"set WARDROUND_PASSPHRASE, or name a file with --passphrase-file"):
        found(ask=False)


def test_without_a_terminal_a_missing_passphrase_is_an_error() -> None:
    assert not passphrase_is_set()
    with pytest.raises(KeyMaterialError, match="a vault needs a passphrase"):
        found()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read(mode: int, file: Path) -> None:
    file.chmod(mode)
    for use in (lambda: found(file), lambda: export_passphrase(file, file.with_name("none"))):
        with pytest.raises(KeyMaterialError, match=r"^phrase can be read by others; only its owner may \(chmod 600\)$"):
            use()
    assert not passphrase_is_set()


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_passphrase(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(
        KeyMaterialError, match=r"^phrase (is empty|cannot be read as text); it must hold only the passphrase"
    ):
        found(file)


def test_the_keyring_is_used_if_requested(file: Path) -> None:
    assert lock_from(file, keyring=True) == KeyringLock()


def test_a_child_process_can_open_the_vault(file: Path, tmp_path: Path) -> None:
    file.write_text(PASSPHRASE)
    vault = Vault.create(tmp_path / "keys.vault", lock(), {"a": b"b"})
    export_passphrase(file, vault.path)
    assert os.environ[FILE_VARIABLE] == str(file) and VARIABLE not in os.environ
    assert Vault.open(vault.path, lock_from(ask=False)).read() == {"a": b"b"}


def test_a_typed_passphrase_reaches_child_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Vault.create(tmp_path / "keys.vault", lock())
    somebody_says(PASSPHRASE, monkeypatch)
    export_passphrase(None, tmp_path / "keys.vault")
    assert os.environ[VARIABLE] == PASSPHRASE


def test_a_wrong_passphrase_is_noticed_at_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Vault.create(tmp_path / "keys.vault", lock())
    monkeypatch.setenv(VARIABLE, "another one altogether")
    with pytest.raises(KeyMaterialError, match=r"does not open keys\.vault"):
        export_passphrase(None, tmp_path / "keys.vault")


def test_a_site_without_a_vault_is_asked_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passphrase, "getpass", lambda _: pytest.fail("it asked"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    export_passphrase(None, tmp_path / "keys.vault")
    assert not passphrase_is_set()
