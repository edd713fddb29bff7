"""Files: opening, reading by line, writing completely or not at all, names, and continuing after a fault."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from wardround.corpora import corpus_files
from wardround.corpora.corpus_files import (
    existing,
    files_below,
    id_of,
    open_for_writing,
    path_of,
    read_chunks,
    read_each,
    read_lines,
    read_text,
    sibling,
    unpacked_name,
    write_file,
    write_folder,
)
from wardround.corpora.corpus_format import Problem, Severity, check_choice, fail_on_error
from wardround.errors import CorpusError, TextError, UsageError
from wardround.text.document import Document


def test_line_ends_are_kept_in_texts_and_removed_from_lines(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a\r\nb\rc\n")
    assert read_text(path) == "a\r\nb\rc\n"
    assert list(read_lines(path)) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_byte_order_mark_is_removed_only_from_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("\ufeffa\n\ufeffb\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "x")) == [(1, "a"), (2, "\ufeffb")]
    assert read_text(tmp_path / "x") == "\ufeffa\n\ufeffb\n"  # in a note it counts in offsets


def test_chunks(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("abcé\n", encoding="utf-8")
    assert list(read_chunks(tmp_path / "x", 2)) == ["ab", "cé", "\n"]


def test_a_choice_is_checked() -> None:
    check_choice("colour", "red", Literal["red", "blue", "green"])
    with pytest.raises(UsageError, match=r"^'rad' is not a colour: expected red, blue or green$"):
        check_choice("colour", "rad", Literal["red", "blue", "green"])


def test_compressed_files_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    with open_for_writing(path) as stream:
        stream.write("é\n")
    assert gzip.decompress(path.read_bytes()) == "é\n".encode()
    assert read_text(path) == "é\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x", b"\xff"),
        ("x.gz", b"not packed"),
        ("x.gz", gzip.compress(b"abc" * 100, mtime=0)[:-9]),
        ("x.gz", gzip.compress(b"abc" * 100, mtime=0)[:10] + b"\xff" * 20),
    ],
)
def test_undecodable_files_raise_corpus_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError):
        read_text(tmp_path / name)
    with pytest.raises(CorpusError):
        list(read_lines(tmp_path / name))


def test_very_long_lines_and_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_files, "MAXIMUM_LINE", 3)
    monkeypatch.setattr(corpus_files, "MAXIMUM_FILE", 7)
    (tmp_path / "x").write_text("ab\nabcd\n")
    with pytest.raises(CorpusError, match=r"^x:2: is longer than 3 characters"):
        list(read_lines(tmp_path / "x"))
    with pytest.raises(CorpusError, match=r"^x: is longer than 7 characters"):
        read_text(tmp_path / "x")


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    with pytest.raises(KeyError), open_for_writing(tmp_path / "x") as stream:
        stream.write("half")
        assert not (tmp_path / "x").exists()
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_unwritable_files_raise_corpus_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(CorpusError, match=r"^x: cannot be written"), open_for_writing(tmp_path / "file" / "x"):
        pass
    with pytest.raises(CorpusError, match=r"^folder: cannot be written"), open_for_writing(tmp_path / "folder"):
        pass
    with pytest.raises(CorpusError, match="half a surrogate pair"), open_for_writing(tmp_path / "x") as stream:
        stream.write("\ud800")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_files_below(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/x.txt", "a.txt.gz", "c.csv"):
        (tmp_path / name).touch()
    assert files_below(tmp_path, ".txt") == [tmp_path / "a.txt.gz", tmp_path / "b" / "x.txt"]
    assert files_below(tmp_path / "c.csv", ".txt") == [tmp_path / "c.csv"]
    with pytest.raises(CorpusError, match=r"contains no file ending in \.xml"):
        files_below(tmp_path, ".xml")
    with pytest.raises(CorpusError, match="does not exist"):
        files_below(tmp_path / "nowhere", ".xml")


def test_an_unreadable_file_is_a_problem_and_the_next_is_read(tmp_path: Path) -> None:
    def read_one(path: Path) -> Iterator[Document]:
        yield Document(f"{path.name}:1", "")
        if path.name == "a":
            raise CorpusError("is broken", path=path, line=7)
        if path.name == "b":
            raise TextError("contradicts itself")

    files = [tmp_path / name for name in "abc"]
    problems: list[Problem] = []
    assert [document.id for document in read_each(files, read_one, problems.append)] == ["a:1", "b:1", "c:1"]
    assert problems == [Problem("is broken", files[0], 7), Problem("contradicts itself", files[1])]
    with pytest.raises(CorpusError, match=r"^a:7: is broken$"):
        list(read_each(files, read_one, fail_on_error))


def test_only_errors_stop_the_default_sink() -> None:
    fail_on_error(Problem("look", severity=Severity.WARNING))
    with pytest.raises(CorpusError, match=r"^x\.ann:3: wrong$"):
        fail_on_error(Problem("wrong", Path("/secret/x.ann"), 3))


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
def test_an_id_that_is_not_a_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="cannot be a file name"):
        path_of(name, tmp_path, set())


def test_sibling_files_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "ann").mkdir()
    for name in ("a.b.txt.gz", "a.b.ann", "ann/a.b.ann.gz"):
        (tmp_path / name).touch()
    note = tmp_path / "a.b.txt.gz"
    assert unpacked_name(note) == "a.b.txt"
    assert sibling(note, ".ann") == tmp_path / "a.b.ann"
    assert sibling(note, ".ann", folder=tmp_path / "ann") == tmp_path / "ann" / "a.b.ann.gz"
    assert sibling(note, ".rel") is None
    assert existing(tmp_path / "a.b.txt") == note
    assert existing(tmp_path / "ann") is None


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


def test_an_error_of_the_reader_keeps_its_place(tmp_path: Path) -> None:
    def broken() -> Iterator[Document]:
        yield NOTES[0]
        raise CorpusError("is broken", path=Path("in.tsv"), line=3)

    with pytest.raises(CorpusError, match=r"^in\.tsv:3: is broken$"):
        write_file(broken(), tmp_path / "x.tsv", lambda d: [d.text])


def test_separate_files(tmp_path: Path) -> None:
    write_folder(NOTES, tmp_path, lambda d: {".txt": d.text, ".id": d.id})
    assert (tmp_path / "ward" / "n1.txt").read_text() == "one"
    assert (tmp_path / "n.2.id").read_text() == "n.2"
    write_folder(NOTES, tmp_path, lambda d: {".txt": d.text}, folders={".txt": "texts"})
    assert (tmp_path / "ward" / "texts" / "n1.txt").read_text() == "one"
    assert (tmp_path / "texts" / "n.2.txt").read_text() == "two"


def test_a_refused_document_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^notes: document 'ward/n1': is too odd$"):
        write_folder(NOTES, tmp_path / "notes", lambda d: {".txt": "".join(refuse(d))})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CorpusError, match=r"two documents have the id 'n\.2'"):
        write_folder([NOTES[1]] * 2, tmp_path, lambda d: {".txt": d.text})
