"""BioC XML: a fixture counted by hand, gaps, faults with their lines, refusals of the writer and round trips."""

from __future__ import annotations

import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import ATTRIBUTES, BRIEF, VALUES, XML_TEXTS, corpora, documents, xml_forbids
from wardround.corpora import xml
from wardround.corpora.bioc import Bioc
from wardround.corpora.corpus_format import Problem
from wardround.corpora.pubtator import Pubtator
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Range, Relation

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection><source>x</source>\n'
TITLE = """<document><id>7</id><infon key="ward">C3</infon>
<passage><infon key="type">title</infon><offset>0</offset><text>Rash &amp; more</text>
<annotation id="A"><infon key="type">ADE</infon><infon key="identifier">D1,D2</infon><infon key="sure">no</infon>
<infon key="note">ask</infon><location offset="0" length="4"/><text>Rash</text></annotation></passage>
"""
ABSTRACT = """<passage><offset>14</offset><text>arms and legs ached on lunarol</text>
<annotation id="B"><infon key="type">ADE</infon><location offset="14" length="4"/><location offset="28" length="5"/>
<text>arms ached</text></annotation>
<annotation id="C"><infon key="type">Drug</infon><location offset="37" length="7"/><text>lunarol</text></annotation>
</passage>
<relation id="R1"><infon key="type">causes</infon><node refid="B" role="tail"/><node refid="C" role="head"/></relation>
<relation id="R2"><infon key="type">same</infon><infon key="entity1">D1</infon><infon key="entity2">D2</infon>
<infon key="novel">No</infon></relation>
<relation id="R3"><infon key="relation">CID</infon><node refid="C" role="Chemical"/><node refid="A" role=""/></relation>
</document>
"""


def read(text: str, folder: Path) -> tuple[list[Document], list[Problem]]:
    file = folder / "a.xml"
    file.write_text(text, encoding="utf-8")
    problems: list[Problem] = []
    return list(Bioc().read(file, problems=problems.append)), problems


def test_a_document_of_two_passages(tmp_path: Path) -> None:
    found, problems = read(HEAD + TITLE + ABSTRACT + "</collection>", tmp_path)
    assert not problems
    assert found == [
        Document(
            "7",
            # 11 characters of title, then a gap of three: a line break and two spaces.
            "Rash & more\n  arms and legs ached on lunarol",
            (
                Entity("A", "ADE", (Range(0, 4),), ("D1", "D2"), (("sure", "no"),), "ask"),
                Entity("B", "ADE", (Range(14, 18), Range(28, 33))),
                Entity("C", "Drug", (Range(37, 44),)),
            ),
            (
                Relation("R1", "causes", "C", "B"),
                Relation("R2", "same", "D1", "D2", Level.CONCEPT, (("novel", "No"),)),
                Relation("R3", "CID", "C", "A", attributes=(("head_role", "Chemical"),)),
            ),
            attributes=(("ward", "C3"),),
        )
    ]


def test_sentences_of_passages(tmp_path: Path) -> None:
    text = (
        HEAD + "<document><id>1</id><passage><offset>0</offset>"
        "<sentence><offset>0</offset><text>No rash.</text></sentence>"
        "<sentence><offset>9</offset><text>Fever.</text>"
        '<annotation id="T1"><infon key="type">ADE</infon><location offset="9" length="5"/></annotation></sentence>'
        "</passage></document></collection>"
    )
    found, problems = read(text, tmp_path)
    assert not problems
    assert found == [
        Document(
            "1",
            "No rash.\nFever.",
            (Entity("T1", "ADE", (Range(9, 14),)),),
            sentences=(Range(0, 8), Range(9, 15)),
        )
    ]


def passage(content: str) -> str:
    start = "<document><id>1</id>\n<passage><offset>0</offset><text>No rash.</text>\n"
    return f"{HEAD}{start}{content}</passage></document>\n<document><id>2</id></document></collection>"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (
            '<annotation id="T"><infon key="type">A</infon><location offset="3" length="9"/></annotation>',
            "T ends at 12, the text has 8 characters",
        ),
        (
            '<annotation id="T"><infon key="type">A</infon><location offset="3" length="4"/><text>x</text>'
            "</annotation>",
            "differs from the text of the note at its offsets",
        ),
        ('<annotation id="T"><location offset="3" length="4"/></annotation>', "has no type"),
        ('<annotation id="T"><infon key="type">A</infon></annotation>', "has no character range"),
        (
            '<annotation id="T"><infon key="type">A</infon><location offset="-3" length="4"/></annotation>',
            "range 0-0 is empty",
        ),
        ('<relation><infon key="type">A</infon><node refid="T"/><node refid="U"/></relation>', "that is not a mention"),
        ('<relation><infon key="type">A</infon><node refid="T"/></relation>', "two nodes"),
        ('<relation><infon key="type">A</infon><infon key="entity1">D</infon></relation>', "two nodes"),
        ('<relation><node refid="T"/><node refid="T"/></relation>', "needs a type"),
        (
            '<relation><infon key="type">A</infon><infon key="entity1">D</infon><infon key="entity2">E</infon>'
            "</relation>",
            "concept that no mention",
        ),
        ("</passage><passage><offset>7</offset><text>x</text>", "begins at 7, but the text before it ends at 8"),
        ("</passage><passage><offset>99999999999</offset><text>x</text>", "too far after 8"),
        ("</passage><passage><text>x</text>", "no offset"),
        ("</passage></document><document><passage>", "no id"),
    ],
)
def test_a_faulty_part_is_reported_with_its_line_and_left_out(tmp_path: Path, content: str, part: str) -> None:
    found, problems = read(passage(content), tmp_path)
    assert [problem.line for problem in problems] == [6]
    assert part in problems[0].message
    assert [document.id for document in found] == ["1", "2"]
    assert (found[0].text, found[0].entities, found[0].relations) == ("No rash.", (), ())


def test_two_relations_with_one_id_are_a_problem(tmp_path: Path) -> None:
    mention = '<annotation id="T"><infon key="type">A</infon><location offset="3" length="4"/></annotation>'
    ends = '<infon key="type">A</infon><node refid="T"/><node refid="T"/>'
    found, problems = read(passage(f'{mention}\n<relation id="R">{ends}</relation>\n' * 2), tmp_path)
    # The second mention also has the id of the first one.
    assert [(problem.line, problem.message) for problem in problems] == [
        (8, "a second entity has the id T"),
        (9, "a second relation has the id R"),
    ]
    assert (len(found[0].entities), len(found[0].relations)) == (1, 1)


def test_malformed_xml_names_the_line_and_keeps_the_documents_before(tmp_path: Path) -> None:
    found, problems = read(f"{HEAD}<document><id>1</id></document>\n<document><id>2</id>\n</wrong>", tmp_path)
    assert [document.id for document in found] == ["1"]
    assert [(problem.message, problem.line) for problem in problems] == [("is not well-formed XML: mismatched tag", 6)]


def test_an_unknown_entity_is_not_quoted(tmp_path: Path) -> None:
    _, problems = read(passage("&quill;"), tmp_path)
    assert [problem.message for problem in problems] == ["is not well-formed XML: undefined entity"]


def test_expanding_entities_are_refused(tmp_path: Path) -> None:
    grows = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    _, problems = read(f'<!DOCTYPE c [<!ENTITY e0 "ha">{grows}]>\n<c>&e9;</c>', tmp_path)
    assert [problem.message for problem in problems] == [
        "declares entities, which are refused; replace them by their text"
    ]


def test_external_entities_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    text = f'<!DOCTYPE c [<!ENTITY s SYSTEM "{(tmp_path / "secret").as_uri()}">]><c>&s;</c>'
    found, problems = read(text, tmp_path)
    assert not found
    assert len(problems) == 1


def test_reading_holds_one_document_at_a_time(tmp_path: Path) -> None:
    text = "word " * 4_000
    Bioc().write((Document(str(number), text) for number in range(300)), tmp_path / "a.xml")
    tracemalloc.start()
    assert sum(1 for _ in Bioc().read(tmp_path / "a.xml")) == 300
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_500_000  # the file has 6 MB


def test_documents_may_cross_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = read(HEAD + TITLE + ABSTRACT + "</collection>", tmp_path)
    monkeypatch.setattr(xml, "_CHUNK", 7)
    assert list(Bioc().read(tmp_path / "a.xml")) == whole


ONE = Document("1", "a pain", (Entity("T1", "Problem", (Range(2, 6),)),))


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (replace(ONE, id=""), "id is empty"),
        (replace(ONE, text="a pain\x00"), "U+0000"),
        (replace(ONE, text="a pain\x0b"), "U+000B"),
        (replace(ONE, text="a pain\uffff"), "U+FFFF"),
        (replace(ONE, text="a pain\ud800"), "U+D800"),
        (ONE.with_entities([Entity("", "P", (Range(0, 1),))]), "without an id"),
        (ONE.with_entities([Entity("T1", "P", (Range(0, 1),), attributes=(("type", "x"),))]), "rename it"),
        (ONE.with_entities([Entity("T1", "P", (Range(0, 1),), ("a;b",))]), "concept id"),
        (replace(ONE, relations=(Relation("R1", "is", "T1", "T1", attributes=(("type", ""),)),)), "rename it"),
    ],
)
def test_the_writer_refuses_what_the_format_cannot_hold(tmp_path: Path, document: Document, part: str) -> None:
    with pytest.raises(CorpusError, match=r"^a\.xml: document ") as caught:
        Bioc().write([document], tmp_path / "a.xml")
    assert part in str(caught.value)
    assert not list(tmp_path.iterdir())


@st.composite
def held(draw: st.DrawFn) -> Document:
    """Draw documents that BioC can represent; concept ids contain no separators."""
    document = draw(documents(texts=XML_TEXTS, discontinuous=True, overlapping=True, relations=True, extras=True))
    ids = st.lists(VALUES.filter(_is_plain_id), max_size=2, unique=True).map(tuple)
    entities = tuple(
        replace(entity, concepts=draw(ids), attributes=draw(PLAIN_ATTRIBUTES), note=draw(XML_TEXTS))
        for entity in document.entities
    )
    concepts = [concept for entity in entities for concept in entity.concepts]
    relations = [*document.relations]
    if concepts:
        between = Relation("C1", "same", concepts[0], concepts[-1], Level.CONCEPT, draw(PLAIN_ATTRIBUTES))
        relations.insert(draw(st.integers(0, len(relations))), between)
    return replace(document, entities=entities, relations=tuple(relations), attributes=draw(PLAIN_ATTRIBUTES))


def _is_plain_id(value: str) -> bool:
    return not set(value) & set(",;") and value not in ("-", "-1") and not xml_forbids(value)


PLAIN_ATTRIBUTES = ATTRIBUTES.filter(lambda pairs: not any(xml_forbids(k + v) for k, v in pairs))


@BRIEF
@given(corpora(held()))
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.xml.gz"
        Bioc().write(found, file)
        assert list(Bioc().read(file)) == found


def test_the_format_can_be_written() -> None:
    assert Bioc().can_write


@pytest.mark.corpus
def test_round_trip_of_biored(shared_data: Path, tmp_path: Path) -> None:
    found = list(Pubtator().read(shared_data / "biored" / "Dev.PubTator"))
    Bioc().write(found, tmp_path / "a.xml")
    assert list(Bioc().read(tmp_path / "a.xml")) == found
