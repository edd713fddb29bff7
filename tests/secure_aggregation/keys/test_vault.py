"""The vault: durability, confidentiality, detection of changes, file modes, and both kinds of lock."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.secure_aggregation.authority import PASSPHRASE, lock

from wardround.errors import KeyMaterialError
from wardround.federation.message import Message, decode, encode
from wardround.secure_aggregation.keys.vault import KeyringLock, PassphraseLock, Vault, check_private, write_whole

HELD = {"one": b"first secret of all", "two": bytes(range(256))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "keys.vault"


@pytest.fixture
def vault(path: Path) -> Vault:
    return Vault.create(path, lock(), HELD)


def refused(path: Path, phrase: str = PASSPHRASE) -> str:
    with pytest.raises(KeyMaterialError) as found:
        Vault.open(path, lock(phrase))
    assert str(path.parent) not in str(found.value)
    return str(found.value)


def test_a_vault_returns_what_was_stored(vault: Vault, path: Path) -> None:
    assert Vault.open(path, lock()).read() == HELD
    assert vault.get("one") == HELD["one"] and vault.get("three") is None


def test_no_secret_is_readable_in_the_file_or_printed(vault: Vault, path: Path) -> None:
    data = path.read_bytes()
    for word in (b"secret", b"one", b"two", HELD["two"][:16], PASSPHRASE.encode()):
        assert word not in data
    assert repr(vault) == "Vault(keys.vault)"


def test_a_change_is_seen_by_an_already_open_vault(vault: Vault, path: Path) -> None:
    other, before = Vault.open(path, lock()), vault.version
    other.change(lambda held: held.update(three=b"3"))
    assert vault.get("three") == b"3"
    assert vault.version != before
    same = vault.version
    other.change(lambda held: None)  # nothing to write
    assert vault.version == same


def test_two_writes_share_no_nonce(vault: Vault, path: Path) -> None:
    first = decode(path.read_bytes()).blobs
    vault.change(lambda held: held.update(two=b"2"))
    vault.change(lambda held: held.update(two=HELD["two"]))
    again = decode(path.read_bytes()).blobs
    assert first["nonce"] != again["nonce"] and first["sealed"] != again["sealed"]


def test_a_change_that_fails_changes_nothing(vault: Vault, path: Path) -> None:
    before = path.read_bytes()

    def fail(held: dict[str, bytes]) -> None:
        held.clear()
        raise ValueError("no")

    with pytest.raises(ValueError):
        vault.change(fail)
    assert path.read_bytes() == before and vault.read() == HELD


def test_a_disk_that_is_full_leaves_the_old_file(vault: Vault, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyMaterialError, match=r"^keys\.vault cannot be used \(No space left on device\)"):
        vault.change(lambda held: held.clear())
    assert path.read_bytes() == before
    assert sorted(found.name for found in path.parent.iterdir()) == ["keys.vault", "keys.vault.lock"]


def test_concurrent_changes_are_all_kept(vault: Vault) -> None:
    threads = [
        threading.Thread(target=vault.change, args=(lambda held, n=n: held.update({f"n{n}": b"x"}),)) for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(vault.read()) == len(HELD) + 12


@pytest.mark.slow
def test_a_process_killed_while_writing_leaves_a_vault_with_all_finished_changes(vault: Vault, path: Path) -> None:
    writer = """
import sys
from pathlib import Path
from tests.secure_aggregation.authority import lock
from wardround.secure_aggregation.keys.vault import Vault
vault = Vault.open(Path(sys.argv[1]), lock())
for number in range(100_000):
    vault.change(lambda held: held.update(n=b"%d" % number, filler=bytes(200_000)))
    print(number, flush=True)
"""
    for lines in (1, 7, 20):
        process = subprocess.Popen([sys.executable, "-c", writer, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(lines):
            last = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        finished = int(rest[-1]) if rest else last
        found = Vault.open(path, lock()).read()
        assert int(found["n"]) in (finished, finished + 1)
        assert found["one"] == HELD["one"]


# What is refused


def test_another_passphrase(vault: Vault, path: Path) -> None:
    before = path.read_bytes()
    said = refused(path, "correct horse batterY")
    assert said == "the passphrase does not open keys.vault: it is wrong, or the file was altered"
    assert path.read_bytes() == before and vault.read() == HELD


@pytest.mark.parametrize("place", ["start", "salt", "cost", "check", "nonce", "sealed", "end"])
def test_one_bit_altered(place: str, vault: Vault, path: Path) -> None:
    data = bytearray(path.read_bytes())
    message = decode(bytes(data))
    sealed = len(data) - len(message.blobs["sealed"])
    offset = {
        "start": 1,
        "salt": data.index(b'"salt":"') + 9,
        "cost": data.index(b'"cost":') + 7,
        "check": data.index(b'"check":"') + 10,
        "nonce": sealed - 3,
        "sealed": sealed + 5,
        "end": len(data) - 1,
    }[place]
    data[offset] ^= 1
    path.write_bytes(data)
    assert "altered" in refused(path)


@pytest.mark.parametrize("length", [0, 3, 40, -1, -20])
def test_cut_short(length: int, vault: Vault, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:length])
    assert refused(path) == "keys.vault was altered or is not a vault; restore a copy of it"


@pytest.mark.parametrize("cost", [2**13, 2**21, 2**14 + 1, "many", None, 2.0])
def test_a_file_cannot_demand_unlimited_work(cost: object, vault: Vault, path: Path) -> None:
    message = decode(path.read_bytes())
    path.write_bytes(encode(Message({**message.values, "cost": cost}, blobs=message.blobs)))  # type: ignore[dict-item]
    assert refused(path) == "the vault was altered: its salt or its scrypt cost is missing or invalid"


def test_a_vault_that_was_replaced_by_another_is_refused(vault: Vault, path: Path, tmp_path: Path) -> None:
    other = Vault.create(tmp_path / "other.vault", lock())
    other.path.replace(path)
    with pytest.raises(KeyMaterialError, match="was replaced by another vault; start again"):
        vault.read()
    assert Vault.open(path, lock()).read() == {}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_file_that_others_can_read_is_refused(mode: int, vault: Vault, path: Path) -> None:
    path.chmod(mode)
    assert refused(path) == "keys.vault can be read by others; only its owner may (chmod 600)"
    path.chmod(0o600)
    assert Vault.open(path, lock()).read() == HELD


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_is_refused(mode: int, vault: Vault, path: Path) -> None:
    path.parent.chmod(mode)
    said = "the folder of keys.vault can be written by others; only its owner may (chmod 700)"
    assert refused(path) == said
    with pytest.raises(KeyMaterialError, match=r"chmod 700"):
        Vault.create(path.parent / "new.vault", lock())
    path.parent.chmod(0o755)
    assert Vault.open(path, lock()).read() == HELD


def test_files_are_private_under_any_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        Vault.create(path, lock())
    finally:
        os.umask(before)
    assert {stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()} == {0o600}


def test_a_link_is_not_a_vault(vault: Vault, path: Path) -> None:
    link = path.with_name("link.vault")
    link.symlink_to(path)
    assert refused(link) == "link.vault is not a regular file"


def test_an_existing_vault_is_not_overwritten_and_a_missing_one_is_not_opened(vault: Vault, path: Path) -> None:
    with pytest.raises(KeyMaterialError, match=r"^keys\.vault exists already"):
        Vault.create(path, lock())
    path.unlink()
    assert refused(path) == "keys.vault cannot be used (No such file or directory)"


def test_a_short_passphrase_makes_no_vault(path: Path) -> None:
    with pytest.raises(KeyMaterialError, match="at least 12 characters"):
        Vault.create(path, lock("eleven char"))
    assert not path.exists()


def test_by_default_a_guess_costs_128_mebibytes(path: Path) -> None:
    facts, _ = PassphraseLock(lambda: PASSPHRASE).create()
    assert facts["cost"] == 2**17  # of 128 · 8 bytes each


def test_a_private_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"1")
    write_whole(tmp_path / "a", b"2")
    check_private(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"2"
    with pytest.raises(KeyMaterialError, match="b cannot be used"):
        check_private(tmp_path / "b")


# The keyring


class Memory:
    """A keyring in the memory of the test."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, entry: str, value: str) -> None:
        self.kept[service, entry] = value

    def get_password(self, service: str, entry: str) -> str | None:
        return self.kept.get((service, entry))


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    module = pytest.importorskip("keyring", reason="the keyring needs wardround[keyring]")
    memory = Memory()
    monkeypatch.setattr(module, "set_password", memory.set_password)
    monkeypatch.setattr(module, "get_password", memory.get_password)
    yield memory


def test_a_key_in_the_keyring_opens_without_a_passphrase(keyring: Memory, path: Path) -> None:
    Vault.create(path, KeyringLock(), HELD)
    ((service, _),) = keyring.kept
    assert service == "wardround"
    assert Vault.open(path, KeyringLock()).read() == HELD
    never = PassphraseLock(lambda: pytest.fail("a passphrase was asked for"))
    assert Vault.open(path, never).read() == HELD  # the file says where its key is


@pytest.mark.parametrize("kept", [None, "", "not base64!", "AAAA"])
def test_an_account_whose_keyring_has_no_such_key(kept: str | None, keyring: Memory, path: Path) -> None:
    Vault.create(path, KeyringLock(), HELD)
    (entry,) = keyring.kept
    keyring.kept = {} if kept is None else {entry: kept}
    assert "has no key for the vault; run as the account that made it" in refused(path)


def test_a_keyring_that_keeps_nothing(keyring: Memory, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "get_password", lambda *_: None)
    monkeypatch.setattr("keyring.get_password", lambda *_: None)
    with pytest.raises(KeyMaterialError, match="has no key for the vault"):
        Vault.create(path, KeyringLock())
    assert not path.exists()


def test_a_machine_without_a_keyring_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("keyring")
    from keyring.backends.fail import Keyring

    before = module.get_keyring()
    module.set_keyring(Keyring())
    try:
        with pytest.raises(KeyMaterialError, match=r"cannot be used \(NoKeyringError\); use a passphrase"):
            Vault.create(path, KeyringLock())
    finally:
        module.set_keyring(before)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(KeyMaterialError, match=r"install wardround\[keyring\]"):
        Vault.create(path, KeyringLock())


def test_the_keyring_does_not_open_what_has_a_passphrase(vault: Vault, path: Path) -> None:
    with pytest.raises(KeyMaterialError, match="has a passphrase; set WARDROUND_PASSPHRASE"):
        Vault.open(path, KeyringLock())
