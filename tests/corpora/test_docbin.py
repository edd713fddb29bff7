"""spaCy's DocBin: what spaCy writes is read, what is written spaCy reads, and damaged files are refused."""

from __future__ import annotations

import random
import sys
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, corpora, documents
from wardround.corpora import docbin
from wardround.corpora.docbin import DocbinFormat
from wardround.errors import CorpusError, UsageError, WardroundError
from wardround.text.document import Document, Entity, Range

spacy = pytest.importorskip("spacy", reason="the extra docbin is not installed")
from spacy.tokens import DocBin  # noqa: E402

TEXT = "Aspirin  burns.\n\nNo fever."


def saved(path: Path) -> Path:
    doc = spacy.blank("en")(TEXT)
    doc.ents = [doc.char_span(0, 7, label="Drug")]
    doc.spans["all"] = [doc.char_span(0, 14, label="Event"), doc.char_span(9, 14, label="ADE")]
    DocBin(docs=[doc], store_user_data=True).to_disk(path)
    return path


def test_entities_and_groups_of_spans_are_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.spacy")
    (found,) = DocbinFormat().read(path)
    assert found == Document("a:1", TEXT, (Entity("T1", "Drug", (Range(0, 7),)),))
    (group,) = DocbinFormat(spans="all", words=True).read(path)
    assert [(e.type, e.ranges[0]) for e in group.entities] == [("Event", (0, 14)), ("ADE", (9, 14))]
    assert group.words == ((0, 7), (9, 14), (14, 15), (17, 19), (20, 25), (25, 26))


def test_spacy_reads_what_is_written(tmp_path: Path) -> None:
    note = Document("n", TEXT, (Entity("T1", "ADE", (Range(9, 14),)),))
    DocbinFormat().write([note], tmp_path / "a.spacy")
    (doc,) = DocBin().from_disk(tmp_path / "a.spacy").get_docs(spacy.blank("en").vocab)
    assert doc.text == TEXT
    assert [(ent.text, ent.label_, ent.start_char) for ent in doc.ents] == [("burns", "ADE", 9)]


@BRIEF
@given(corpora(documents(texts=st.text(st.sampled_from("ab 1.\n\t é😀"), max_size=30)), minimum=1))
def test_round_trip(found: list[Document]) -> None:
    """Texts survive exactly; a document is refused only if a mention cuts a word."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.spacy"
        bare = [document.with_entities(()) for document in found]
        DocbinFormat().write(bare, path)
        assert [note.text for note in DocbinFormat().read(path)] == [note.text for note in found]
        try:
            DocbinFormat().write(found, path)
        except CorpusError as error:
            assert "cuts a word" in str(error)
            return
        again = list(DocbinFormat().read(path))
        expected = [sorted((e.ranges, e.type) for e in note.entities) for note in found]
        assert [[(e.ranges, e.type) for e in note.entities] for note in again] == expected


@pytest.mark.parametrize(
    ("entities", "fault"),
    [
        ((Entity("T1", "a", (Range(0, 3),)),), "T1 is discontinuous or cuts a word"),
        ((Entity("T1", "a", (Range(0, 7), Range(9, 14))),), "T1 is discontinuous or cuts a word"),
        ((Entity("T1", "a", (Range(0, 7),)), Entity("T2", "b", (Range(0, 14),))), "T1 and T2 overlap"),
    ],
)
def test_what_spacy_cannot_hold_is_refused(tmp_path: Path, entities: tuple[Entity, ...], fault: str) -> None:
    with pytest.raises(CorpusError, match=rf"^a\.spacy: document 'n': {fault}"):
        DocbinFormat().write([Document("n", TEXT, entities)], tmp_path / "a.spacy")
    assert not list(tmp_path.iterdir())


def test_damaged_files_raise_an_error_of_ours(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.spacy")
    whole, numbers = path.read_bytes(), random.Random(7)
    inner = zlib.decompress(whole)
    damaged = [whole[:length] for length in range(0, len(whole), 40)]
    damaged += [b"", b"\x00" * 100, zlib.compress(b"\xc1"), zlib.compress(b"\x80"), zlib.compress(b"\x91" * 50_000)]
    for _ in range(150):
        place = numbers.randrange(len(inner))
        damaged.append(zlib.compress(inner[:place] + bytes([numbers.randrange(256)]) + inner[place + 1 :]))
    for content in damaged:
        path.write_bytes(content)
        try:
            list(DocbinFormat().read(path))
        except WardroundError as error:
            assert "Aspirin" not in str(error)


def test_a_file_that_grows_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docbin, "MAXIMUM_FILE", 10_000)
    (tmp_path / "a.spacy").write_bytes(zlib.compress(b"\x00" * 1_000_000))
    with pytest.raises(CorpusError, match=r"^a\.spacy: is longer than 10,000 bytes when decompressed"):
        list(DocbinFormat().read(tmp_path))


def test_the_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "a.spacy")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(UsageError, match=r"the format docbin needs spaCy: pip install 'wardround\[spacy\]'"):
        list(DocbinFormat().read(path))


def test_the_library_is_not_imported_with_the_format() -> None:
    import subprocess

    code = "import sys, wardround.corpora.formats; sys.exit('spacy' in sys.modules or 'pyarrow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
