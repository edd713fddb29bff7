"""PubTator: a fixture counted by hand, faults, refusals of the writer, round trips and BioRED."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, CHARACTERS, VALUES, corpora, documents
from wardround.corpora.corpus_format import Problem, Severity
from wardround.corpora.pubtator import Pubtator
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Range, Relation

TWO = (
    "11|t|Rash after lunarol\n"
    "11|a|Two nurses took lunarol and got a rash.\n"
    "11\t11\t18\tlunarol\tChemical\tD0001\n"
    "11\t53\t57\trash\tDisease\tD0002,D0003;D0004\n"
    "11\t19\t29\tTwo nurses\tSpecies\t-\n"
    "11\tPositive_Correlation\tD0001\tD0003\tNovel\n"
    "11\tAssociation\tD0002\tD0001\n"
    "\n"
    "12|t|No abstract\n"
)


def read(text: str, folder: Path) -> tuple[list[Document], list[Problem]]:
    file = folder / "a.PubTator"
    file.write_text(text, encoding="utf-8")
    problems: list[Problem] = []
    return list(Pubtator().read(file, problems=problems.append)), problems


def test_two_documents(tmp_path: Path) -> None:
    found, problems = read(TWO, tmp_path)
    assert not problems
    assert found == [
        Document(
            "11",
            "Rash after lunarol\nTwo nurses took lunarol and got a rash.",
            (
                Entity("T1", "Chemical", (Range(11, 18),), ("D0001",)),
                Entity("T2", "Disease", (Range(53, 57),), ("D0002", "D0003", "D0004")),
                Entity("T3", "Species", (Range(19, 29),)),
            ),
            (
                Relation("R1", "Positive_Correlation", "D0001", "D0003", Level.CONCEPT, (("novelty", "Novel"),)),
                Relation("R2", "Association", "D0002", "D0001", Level.CONCEPT),
            ),
        ),
        Document("12", "No abstract"),
    ]


def test_compression_windows_line_ends_and_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    plain, _ = read(TWO, tmp_path)
    packed = tmp_path / "b.PubTator.gz"
    packed.write_bytes(gzip.compress(("\ufeff" + TWO.replace("\n", "\r\n")).encode()))
    assert list(Pubtator().read(packed)) == plain
    assert list(Pubtator().read(tmp_path)) == plain + plain


def test_a_title_begins_a_document_without_a_blank_line(tmp_path: Path) -> None:
    found, problems = read("1|t|One\n1|a|more\n2|t|Two\n", tmp_path)
    assert [document.text for document in found] == ["One\nmore", "Two"]
    assert not problems


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("1\t0\t400\tOne\tDrug\tD1", "T1 ends at 400, the text has 8 characters"),
        ("1\t2\t1\tOne\tDrug\tD1", "range 2-1 is empty"),
        ("1\t0\t3\tTwo\tDrug\tD1", "differs from the text of the note at its offsets"),
        ("1\t0\t4\tOne\tDrug\tD1", "differs from the text of the note at its offsets"),
        ("1\t0\t3\tOne\t\tD1", "has no type"),
        ("1\t0\t" + "9" * 5000 + "\tOne\tDrug\tD1", "has 6 columns"),
        ("1\tBinds\tD1\tD2", "names a concept that no mention"),
        ("1\t\tD1\tD2", "has 4 columns"),
        ("1\tBinds", "has 2 columns"),
        ("2\t0\t3\tOne\tDrug\tD1", "begins with another id"),
        ("no tabs at all", "begins with another id"),
    ],
)
def test_a_faulty_line_is_reported_and_left_out(tmp_path: Path, line: str, part: str) -> None:
    found, problems = read(f"1|t|One\n1|a|more\n{line}\n1\t0\t3\tOne\tDrug\tD9\n", tmp_path)
    assert [(p.severity, p.path, p.line) for p in problems] == [(Severity.ERROR, tmp_path / "a.PubTator", 3)]
    assert part in problems[0].message
    assert [document.entities for document in found] == [(Entity("T1", "Drug", (Range(0, 3),), ("D9",)),)]


def test_the_default_sink_stops_at_the_first_error_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "a.PubTator"
    file.write_text("1|t|One\n1\t0\t9\tOne\tDrug\tD1\n")
    with pytest.raises(CorpusError, match=r"^a\.PubTator:2: T1 ends at 9, the text has 3 characters$"):
        list(Pubtator().read(file))


def test_a_document_without_title_is_skipped(tmp_path: Path) -> None:
    found, problems = read("1|a|Only this\n1\t0\t4\tOnly\tDrug\tD1\n\n2|t|Two\n", tmp_path)
    assert [document.id for document in found] == ["2"]
    assert [problem.line for problem in problems] == [1]


def test_documents_before_undecodable_bytes_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.PubTator"
    file.write_bytes(b"1|t|One\n\n2|t|Two\n\n3|t|Dr\xe9\n" + b" " * 10_000)
    problems: list[Problem] = []
    list(Pubtator().read(file, problems=problems.append))
    assert ["UTF-8" in problem.message for problem in problems] == [True]


def test_a_mention_may_cross_title_and_abstract(tmp_path: Path) -> None:
    found, problems = read("1|t|chest\n1|a|pain\n1\t0\t10\tchest pain\tProblem\n", tmp_path)
    assert not problems
    assert found[0].entities[0].text_in(found[0].text) == "chest\npain"


ONE = Document("1", "a pain", (Entity("T1", "Problem", (Range(2, 6),), ("D1",)),))


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (replace(ONE, id="a|b"), "'|'"),
        (replace(ONE, id=""), "is empty or contains"),
        (replace(ONE, text="a pain\nb\nc"), "one line each"),
        (replace(ONE, text="a pain\r"), "one line each"),
        (ONE.with_entities([Entity("T1", "P", (Range(0, 1), Range(2, 3)))]), "discontinuous"),
        (ONE.with_entities([Entity("T1", "P\t", (Range(0, 1),))]), "type of T1"),
        (ONE.with_entities([Entity("T1", "P", (Range(0, 1),), ("a,b",))]), "concept id"),
        (ONE.with_entities([Entity("T1", "P", (Range(0, 1),), ("-",))]), "concept id"),
        (ONE.with_entities([Entity("T1", "P", (Range(0, 1),), ("a\nb",))]), "concept id"),
        (replace(ONE, relations=(Relation("R1", "is", "T1", "T1"),)), "relates mentions"),
        (replace(ONE, relations=(Relation("R1", "a\tb", "D1", "D1", Level.CONCEPT),)), "of R1"),
    ],
)
def test_the_writer_refuses_what_the_format_cannot_hold(tmp_path: Path, document: Document, part: str) -> None:
    with pytest.raises(CorpusError, match=r"^a\.PubTator: document ") as caught:
        Pubtator().write([document], tmp_path / "a.PubTator")
    assert part in str(caught.value)
    assert not list(tmp_path.iterdir())


@st.composite
def held(draw: st.DrawFn) -> Document:
    """Draw documents that PubTator can represent: two lines, continuous mentions, relations between concepts."""
    line = st.text(CHARACTERS.filter(lambda c: c != "\n"), max_size=20)
    texts = st.one_of(line, st.builds("{}\n{}".format, line, line))
    document = draw(documents(texts=texts, overlapping=True))
    ids = st.lists(VALUES.filter(lambda v: not set(v) & set(",;") and v not in ("-", "-1")), max_size=2, unique=True)
    entities = tuple(replace(entity, concepts=tuple(draw(ids))) for entity in document.entities)
    return replace(document, entities=entities, relations=tuple(draw(_relations(entities))))


@st.composite
def _relations(draw: st.DrawFn, entities: Iterable[Entity]) -> list[Relation]:
    concepts = [concept for entity in entities for concept in entity.concepts]
    if not concepts:
        return []
    ends = st.sampled_from(concepts)
    novelty = st.sampled_from([(), (("novelty", "Novel"),)])
    drawn = draw(st.lists(st.tuples(st.sampled_from(["Bind", "Causes"]), ends, ends, novelty), max_size=3))
    return [Relation(f"R{i}", *triple, Level.CONCEPT, rest) for i, (*triple, rest) in enumerate(drawn, start=1)]


@BRIEF
@given(corpora(held()))
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.PubTator.gz"
        Pubtator().write(found, file)
        assert list(Pubtator().read(file)) == found


def test_the_format_can_be_written() -> None:
    assert Pubtator().can_write


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "expected"), [("Train", (400, 13_351, 4_178)), ("Dev", (100, 3_533, 1_162)), ("Test", (100, 3_535, 1_163))]
)
def test_biored(shared_data: Path, tmp_path: Path, name: str, expected: tuple[int, int, int]) -> None:
    problems: list[Problem] = []
    found = list(Pubtator().read(shared_data / "biored" / f"{name}.PubTator", problems=problems.append))
    assert not problems  # the words of every mention are at its offsets
    counts = len(found), sum(len(d.entities) for d in found), sum(len(d.relations) for d in found)
    assert counts == expected
    Pubtator().write(found, tmp_path / "again.PubTator")
    assert list(Pubtator().read(tmp_path / "again.PubTator")) == found
