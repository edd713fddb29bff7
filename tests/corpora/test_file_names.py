"""Ids from files and files from ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.file_names import beside, existing, id_of, path_of, unpacked_name
from wardround.errors import CorpusError


def test_an_id_is_the_path_below_the_root_without_endings(tmp_path: Path) -> None:
    assert id_of(tmp_path / "ward" / "n1.txt.gz", tmp_path) == "ward/n1"
    assert id_of(tmp_path / "a.b.txt", tmp_path) == "a.b"
    single = tmp_path / "n1.txt"
    single.touch()
    assert id_of(single, single) == "n1"


def test_a_path_is_the_id_below_the_root(tmp_path: Path) -> None:
    written: set[str] = set()
    assert path_of("ward/n1", tmp_path, written) == tmp_path / "ward" / "n1"
    assert written == {"ward/n1"}
    with pytest.raises(CorpusError, match="two documents have the id 'ward/n1'"):
        path_of("ward/n1", tmp_path, written)


@pytest.mark.parametrize("name", ["", ".", "..", "a/..", "../a", "/a", "a/", "a//b", "./a", "a\\b", "a\0b", "é" * 101])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="cannot be a file name"):
        path_of(name, tmp_path, set())


def test_files_beside_a_note_may_be_packed(tmp_path: Path) -> None:
    (tmp_path / "ann").mkdir()
    for name in ("a.b.txt.gz", "a.b.ann", "ann/a.b.ann.gz"):
        (tmp_path / name).touch()
    note = tmp_path / "a.b.txt.gz"
    assert unpacked_name(note) == "a.b.txt"
    assert beside(note, ".ann") == tmp_path / "a.b.ann"
    assert beside(note, ".ann", folder=tmp_path / "ann") == tmp_path / "ann" / "a.b.ann.gz"
    assert beside(note, ".rel") is None
    assert existing(tmp_path / "a.b.txt") == note
    assert existing(tmp_path / "ann") is None
