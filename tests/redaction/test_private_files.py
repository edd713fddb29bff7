from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from wardround.errors import CorpusError
from wardround.redaction.private_files import GrowingFile, private_umask


def test_a_file_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.jsonl"
    file = GrowingFile(path)
    file.append("é\n")
    assert file.size == 3
    assert not path.exists()
    file.finish()
    assert path.read_text() == "é\n"
    assert not file.partial.exists()


def test_bytes_after_the_kept_ones_are_removed(tmp_path: Path) -> None:
    first = GrowingFile(tmp_path / "a")
    first.append("one\ntwo\n")
    again = GrowingFile(tmp_path / "a", keep=4)
    again.append("2\n")
    again.finish()
    assert (tmp_path / "a").read_text() == "one\n2\n"


def test_a_renamed_file_can_be_continued(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    again = GrowingFile(tmp_path / "a", keep=4)
    assert not (tmp_path / "a").exists()
    again.finish()
    assert (tmp_path / "a").read_text() == "one\n"


def test_invalid_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.partial").write_text("one\n")
    with pytest.raises(CorpusError, match=r"^a: is shorter than the journal says"):
        GrowingFile(tmp_path / "a", keep=9)
    with pytest.raises(CorpusError, match=r"^b: cannot be written \(No such file or directory\)$"):
        GrowingFile(tmp_path / "b", keep=1)
    with pytest.raises(CorpusError, match=r"^c: a text contains half a surrogate pair"):
        GrowingFile(tmp_path / "c").append("\ud800")


def test_only_the_owner_can_read_a_file_and_its_folder(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "new" / "a.jsonl")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE(file.partial.stat().st_mode) == 0o600
    file.partial.chmod(0o644)
    file.append("x")
    assert stat.S_IMODE(file.partial.stat().st_mode) == 0o600
    before = os.umask(0o022)
    with private_umask():
        (tmp_path / "b").touch()
    assert os.umask(before) == 0o022
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
