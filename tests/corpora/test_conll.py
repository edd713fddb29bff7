"""CoNLL columns: offsets by hand, faults by line, and read(write(x)) == x."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, TYPES, WORD_CHARACTERS
from wardround.corpora.conll import Conll, SchemeName
from wardround.corpora.corpus_format import Problem, Severity
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_schemes import SCHEMES

TABS = Conll()
PLAIN = "Aspirin\tB-Drug\n80\tB-Dose\nmg\tI-Dose\n\nNo\tO\nrash\tB-ADE\n"


def read(folder: Path, content: str, form: Conll = TABS, name: str = "train.tsv") -> list[Document]:
    path = folder / name
    path.write_bytes(content.encode())
    return list(form.read(path))


def collect(folder: Path, content: str, form: Conll = TABS) -> tuple[list[Document], list[Problem]]:
    path = folder / "x.tsv"
    path.write_bytes(content.encode())
    problems: list[Problem] = []
    return list(form.read(path, problems=problems.append)), problems


def test_every_sentence_is_a_document_without_docstart(tmp_path: Path) -> None:
    first, second = read(tmp_path, PLAIN)
    assert (first.id, first.text) == ("train:1", "Aspirin 80 mg")
    assert first.entities == (Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "Dose", (Range(8, 13),)))
    assert first.words == (Range(0, 7), Range(8, 10), Range(11, 13))
    assert first.sentences == (Range(0, 13),)
    assert (second.id, second.text) == ("train:2", "No rash")
    assert second.entities == (Entity("T1", "ADE", (Range(3, 7),)),)


def test_docstart_separates_documents_and_a_line_break_sentences(tmp_path: Path) -> None:
    content = f"\n-DOCSTART- -X- O O\n\n{PLAIN}-DOCSTART-\n\nOk\tO\n"
    first, second = read(tmp_path, content)
    assert first.text == "Aspirin 80 mg\nNo rash"
    assert first.sentences == (Range(0, 13), Range(14, 21))
    assert first.entities[2] == Entity("T3", "ADE", (Range(17, 21),))
    assert (second.id, second.text) == ("train:2", "Ok")


def test_late_docstart_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^train\.tsv:8: there is a -DOCSTART- here"):
        read(tmp_path, PLAIN + "\n-DOCSTART-\tO\n")


def test_carriage_returns_and_a_byte_order_mark_are_removed(tmp_path: Path) -> None:
    (document,) = read(tmp_path, "\ufeffAspirin\tB-Drug\r\nhelps\tO\r\n\r\n")
    assert document.text == "Aspirin helps"


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (Conll(word_column=1, tag_column=3), "7\tAspirin\tNN\tB-Drug"),
        (Conll(word_column=-1, tag_column=0, delimiter="space"), "B-Drug Aspirin"),
        (Conll(delimiter="whitespace"), "Aspirin   NN \t B-Drug"),
        (Conll(delimiter="||"), "Aspirin||B-Drug"),
    ],
)
def test_column_and_delimiter_options(tmp_path: Path, form: Conll, line: str) -> None:
    (document,) = read(tmp_path, line + "\n", form)
    assert (document.text, document.entities[0].type) == ("Aspirin", "Drug")


def test_ill_formed_tags_are_repaired_with_a_warning_at_their_line(tmp_path: Path) -> None:
    documents, problems = collect(tmp_path, "a\tO\nb\tO\n\nc\tO\nd\tI-Drug\ne\tI-Drug\n")
    assert documents[1].entities == (Entity("T1", "Drug", (Range(2, 5),)),)
    assert [(p.line, p.severity) for p in problems] == [(5, Severity.WARNING)]


def test_an_unfinished_bioes_mention_is_reported_at_its_last_line(tmp_path: Path) -> None:
    documents, problems = collect(tmp_path, "a\tO\nb\tB-Drug\n", Conll(scheme="BIOES"))
    assert documents[0].entities == (Entity("T1", "Drug", (Range(2, 3),)),)
    assert [problem.line for problem in problems] == [2]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("secret", "has 1 columns"),
        ("O", "has 1 columns"),
        ("a\tsecret", "the tag is not a BIO tag"),
        ("a\tE-Drug", "the tag is not a BIO tag"),
        ("\tO", "the word is empty"),
    ],
)
def test_a_faulty_line_is_an_error_that_does_not_quote_it(tmp_path: Path, line: str, fault: str) -> None:
    form = Conll()
    with pytest.raises(CorpusError, match=rf"^train\.tsv:2: {fault}") as caught:
        read(tmp_path, f"a\tO\n{line}\n", form)
    assert "secret" not in str(caught.value)
    documents, problems = collect(tmp_path, f"a\tO\n{line}\nb\tO\n", form)
    assert documents[0].text.endswith("b")
    assert len(problems) == 1


def test_a_folder_is_read_in_order_and_ids_contain_subfolders(tmp_path: Path) -> None:
    (tmp_path / "east").mkdir()
    for name in ("b.tsv", "a.conll", "east/b.bio", "ignored.csv"):
        (tmp_path / name).write_text("x\tO\n")
    assert [document.id for document in Conll().read(tmp_path)] == ["a:1", "b:1", "east/b:1"]


def test_the_file_after_an_undecodable_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\xff\xfe\tO\n")
    (tmp_path / "b.tsv").write_text("x\tO\n")
    problems: list[Problem] = []
    assert [document.id for document in Conll().read(tmp_path, problems=problems.append)] == ["b:1"]
    assert [(p.path, p.severity) for p in problems] == [(tmp_path / "a.tsv", Severity.ERROR)]


def test_options_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(UsageError, match="column 1"):
        Conll(word_column=1, tag_column=1)
    with pytest.raises(UsageError, match="empty"):
        Conll(delimiter="")
    with pytest.raises(UsageError, match="BIOES"):
        Conll(scheme="BILOU")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="refuse or widen"):
        Conll(misfits="drop")  # type: ignore[arg-type]


def document(text: str, *ranges: tuple[int, int], kind: str = "Drug") -> Document:
    return Document("d", text, tuple(Entity(f"T{n}", kind, (Range(*r),)) for n, r in enumerate(ranges)))


def test_words_and_sentences_are_found_if_the_document_has_none(tmp_path: Path) -> None:
    Conll().write([document("Took Aspirin.\n\nFelt well.", (5, 12))], tmp_path / "x.tsv")
    expected = "-DOCSTART-\tO\n\nTook\tO\nAspirin\tB-Drug\n.\tO\n\nFelt\tO\nwell\tO\n.\tO\n\n"
    assert (tmp_path / "x.tsv").read_text() == expected


def test_found_sentences_are_joined_if_a_mention_crosses_their_border(tmp_path: Path) -> None:
    Conll().write([document("A b.\n\nC d.\n\nE f.", (2, 7))], tmp_path / "x.tsv")
    (again,) = Conll().read(tmp_path / "x.tsv")
    assert again.text == "A b . C d .\nE f ."
    assert again.entities == (Entity("T1", "Drug", (Range(2, 7),)),)


def test_a_mention_inside_a_word_is_widened_by_option(tmp_path: Path) -> None:
    Conll(misfits="widen").write([document("Took Aspirin now", (6, 8))], tmp_path / "x.tsv")
    (again,) = Conll().read(tmp_path / "x.tsv")
    assert again.entities == (Entity("T1", "Drug", (Range(5, 12),)),)


@pytest.mark.parametrize(
    ("faulty", "fault"),
    [
        (Document("d", "a b c", (Entity("T1", "X", (Range(0, 1), Range(4, 5))),)), "T1 is discontinuous"),
        (document("Aspirin", (0, 4)), "inside a word"),
        (document("a b c", (0, 3), (2, 5)), "overlaps another mention"),
        (Document("d", "a b", (Entity("T1", "X", (Range(1, 2),)),)), "contains no word"),
        (
            Document("d", "a b", (Entity("T1", "X", (Range(0, 3),)),), sentences=(Range(0, 1), Range(2, 3))),
            "crosses into the next",
        ),
        (document("a", (0, 1), kind="Dr\tug"), "cannot be written in columns"),
        (Document("d", "a\nb", words=(Range(0, 3),), sentences=(Range(0, 3),)), "cannot be written in columns"),
        (Document("d", "-DOCSTART-", words=(Range(0, 10),)), "cannot be written in columns"),
    ],
)
def test_mentions_that_tags_cannot_express_are_refused(tmp_path: Path, faulty: Document, fault: str) -> None:
    with pytest.raises(CorpusError, match=fault):
        Conll().write([faulty], tmp_path / "x.tsv")
    assert list(tmp_path.iterdir()) == []


@st.composite
def tagged(draw: st.DrawFn, scheme: SchemeName) -> list[Document]:
    """Draw documents in the form that the reader creates."""
    word = st.text(WORD_CHARACTERS, min_size=1, max_size=6)
    documents = []
    for number in range(1, draw(st.integers(0, 3)) + 1):
        text, words, sentences, entities = "", [], [], []
        for _ in range(draw(st.integers(0, 3))):
            start = len(text) + 1 if sentences else 0
            tags = draw(st.lists(st.sampled_from(SCHEMES[scheme].tags(TYPES)), min_size=1, max_size=5))
            texts = [draw(word) for _ in tags]
            ranges = [
                Range(start + sum(map(len, texts[:i])) + i, start + sum(map(len, texts[: i + 1])) + i)
                for i in range(len(texts))
            ]
            text += ("\n" if sentences else "") + " ".join(texts)
            words += ranges
            sentences.append(Range(start, len(text)))
            for first, end, kind in SCHEMES[scheme].spans(tags):
                entities.append(
                    Entity(f"T{len(entities) + 1}", kind, (Range(ranges[first].start, ranges[end - 1].end),))
                )
        documents.append(Document(f"x:{number}", text, tuple(entities), words=tuple(words), sentences=tuple(sentences)))
    return documents


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IOB1"])
@BRIEF
@given(data=st.data())
def test_round_trip(data: st.DataObject, scheme: SchemeName) -> None:
    delimiter = data.draw(st.sampled_from(["tab", "space", "whitespace", "||"]))
    columns = data.draw(st.sampled_from([(0, -1), (1, 3), (-1, 0), (-3, -2)]))
    form = Conll(*columns, delimiter, scheme)
    documents = data.draw(tagged(scheme))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tsv"
        try:
            form.write(documents, path)
        except CorpusError as error:
            assert delimiter == "||" and "cannot be written in columns" in error.reason
            return
        problems: list[Problem] = []
        assert list(form.read(path, problems=problems.append)) == documents
        assert problems == []


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "split", "sentences", "entities"),
    [
        ("BC2GM", "train", 12_574, 15_197),
        ("BC2GM", "devel", 2_519, 3_061),
        ("BC2GM", "test", 5_038, 6_325),
        ("BC5CDR", "train", 4_560, 9_385),
        ("BC5CDR", "devel", 4_581, 9_593),
        ("BC5CDR", "test", 4_797, 9_809),
    ],
)
def test_counts_of_real_corpora(shared_data: Path, name: str, split: str, sentences: int, entities: int) -> None:
    path = shared_data / "mtl_bioinformatics_2016" / f"{name}-IOB" / f"{split}.tsv"
    problems: list[Problem] = []
    documents = list(Conll().read(path, problems=problems.append))
    assert (len(documents), sum(len(document.entities) for document in documents)) == (sentences, entities)
    assert problems == []
