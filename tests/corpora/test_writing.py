"""Writing: one file, or files of their own, whole or not at all, and refusals that name the document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wardround.corpora.writing import write_file, write_folder
from wardround.errors import CorpusError
from wardround.text.document import Document

NOTES = [Document("ward/n1", "one"), Document("n.2", "two")]


def refuse(document: Document) -> Iterator[str]:
    yield "a line"
    raise CorpusError("is too odd")


def test_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    write_file(NOTES, path, lambda d: [d.id, d.text], opening="<\n", closing=">\n")
    assert path.read_text() == "<\nward/n1\none\nn.2\ntwo\n>\n"


def test_a_refusal_names_the_document_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^x\.tsv: document 'ward/n1': is too odd$"):
        write_file(NOTES, tmp_path / "x.tsv", refuse)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_reader_behind_keeps_its_own_place(tmp_path: Path) -> None:
    def broken() -> Iterator[Document]:
        yield NOTES[0]
        raise CorpusError("is broken", path=Path("in.tsv"), line=3)

    with pytest.raises(CorpusError, match=r"^in\.tsv:3: is broken$"):
        write_file(broken(), tmp_path / "x.tsv", lambda d: [d.text])


def test_files_of_their_own(tmp_path: Path) -> None:
    write_folder(NOTES, tmp_path, lambda d: {".txt": d.text, ".id": d.id})
    assert (tmp_path / "ward" / "n1.txt").read_text() == "one"
    assert (tmp_path / "n.2.id").read_text() == "n.2"
    write_folder(NOTES, tmp_path, lambda d: {".txt": d.text}, folders={".txt": "texts"})
    assert (tmp_path / "ward" / "texts" / "n1.txt").read_text() == "one"
    assert (tmp_path / "texts" / "n.2.txt").read_text() == "two"


def test_a_document_that_is_refused_leaves_none_of_its_files(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^notes: document 'ward/n1': is too odd$"):
        write_folder(NOTES, tmp_path / "notes", lambda d: {".txt": "".join(refuse(d))})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CorpusError, match=r"two documents have the id 'n\.2'"):
        write_folder([NOTES[1]] * 2, tmp_path, lambda d: {".txt": d.text})
