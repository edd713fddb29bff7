from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

import pytest

from wardround.errors import KeyMaterialError, UsageError
from wardround.redaction.secret_key import SecretKey, read_key

KEY = SecretKey(bytes(32))


def test_a_digest_is_an_hmac_of_the_names_and_their_lengths() -> None:
    assert KEY.digest("ab", "c") == hmac.new(bytes(32), b"2:ab\x1f1:c", sha256).digest()


def test_names_of_different_lengths_give_different_digests() -> None:
    assert KEY.digest("ab", "c") != KEY.digest("a", "bc")
    assert KEY.digest("a\x1f1:b") != KEY.digest("a", "b")


def test_another_key_gives_other_choices() -> None:
    other = SecretKey(b"\x01" * 32)
    assert [KEY.number(1000, str(n)) for n in range(8)] != [other.number(1000, str(n)) for n in range(8)]
    assert KEY.child("a").digest("x") != KEY.child("b").digest("x")


def test_numbers_cover_their_range() -> None:
    assert {KEY.number(3, str(n)) for n in range(60)} == {0, 1, 2}


def test_a_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = read_key(path)
    assert len(made) == 32
    assert read_key(path) == made
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"00" * 31, b"no key", b"\xff\xfe"])
def test_a_file_without_a_key_is_refused_and_not_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(KeyMaterialError, match=r"^key contains no key"):
        read_key(path)
    assert path.read_bytes() == content


def test_a_key_that_cannot_be_made_is_refused_without_its_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^key cannot be opened \(No such file or directory\)$"):
        read_key(tmp_path / "absent" / "key")
