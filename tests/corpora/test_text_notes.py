"""Plain notes: unchanged text, ids from paths, and an undecodable note between good ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from wardround.corpora.corpus_format import Problem
from wardround.corpora.formats import open_format
from wardround.corpora.text_notes import PlainText
from wardround.errors import CorpusError
from wardround.text.document import Document


def test_the_notes_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "n.1.txt").write_bytes("Off oxygen.\r\n  é😀\n".encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "other.md").write_text("no note")
    assert list(PlainText().read(tmp_path)) == [
        Document("b", ""),
        Document("ward/n.1", "Off oxygen.\r\n  é😀\n"),
    ]


def test_one_note_by_name(tmp_path: Path) -> None:
    (tmp_path / "n1.note").write_text("Slept well.")
    assert list(PlainText().read(tmp_path / "n1.note")) == [Document("n1", "Slept well.")]


def test_the_note_after_an_undecodable_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"Dr. M\xfcller")
    (tmp_path / "b.txt").write_text("Slept well.")
    problems: list[Problem] = []
    assert [note.id for note in PlainText().read(tmp_path, problems=problems.append)] == ["b"]
    assert [(problem.path, "UTF-8" in problem.message) for problem in problems] == [(tmp_path / "a.txt", True)]
    with pytest.raises(CorpusError, match=r"^a\.txt: is not UTF-8"):
        list(PlainText().read(tmp_path))


def test_the_format_can_only_be_read() -> None:
    assert open_format("text") == PlainText()
    assert not PlainText().can_write
