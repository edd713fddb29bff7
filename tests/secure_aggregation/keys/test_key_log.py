"""The log of a key service: append-only, complete lines, and no key is issued without it."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from wardround.errors import KeyMaterialError
from wardround.secure_aggregation.keys.key_log import KeyLog, read_log


def test_lines_are_read_in_the_order_of_writing(tmp_path: Path) -> None:
    log = KeyLog(tmp_path / "keys.jsonl")
    log.write("secret", "given", who="h1", certificate="SHA256:01", address="10.0.0.1", epoch=3)
    log.write("rotate", "done", epoch=4)
    first, second = read_log(log.path)
    assert (first.who, first.certificate, first.address) == ("h1", "SHA256:01", "10.0.0.1")
    assert (first.asked, first.epoch, first.outcome) == ("secret", 3, "given")
    assert (second.who, second.asked, second.epoch) == ("", "rotate", 4)
    assert 0 <= second.time - first.time < 60
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_an_incomplete_line_affects_no_other_line(tmp_path: Path) -> None:
    log = KeyLog(tmp_path / "keys.jsonl")
    log.write("secret", "given", who="h1")
    with log.path.open("ab") as stream:
        stream.write(b'{"time":17')
    log.write("secret", "revoked", who="h2")
    assert [line.who for line in read_log(log.path)] == ["h1", "h2"]


def test_concurrent_writers_lose_no_line(tmp_path: Path) -> None:
    log = KeyLog(tmp_path / "keys.jsonl")
    threads = [threading.Thread(target=log.write, args=("secret", "given"), kwargs={"epoch": n}) for n in range(1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line.epoch for line in read_log(log.path)) == list(range(1, 21))


def test_a_log_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / "keys.jsonl").mkdir()
    with pytest.raises(KeyMaterialError, match=r"^keys\.jsonl cannot be written \(Is a directory\); no key is issued"):
        KeyLog(tmp_path / "keys.jsonl").write("secret", "given")
    with pytest.raises(KeyMaterialError, match=r"^keys\.jsonl cannot be read"):
        list(read_log(tmp_path / "keys.jsonl"))
    assert list(read_log(tmp_path / "none.jsonl")) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "keys.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyMaterialError):
        KeyLog(tmp_path / "keys.jsonl").write("secret", "given")
    assert not (tmp_path / "elsewhere").exists()
