"""SMM4H lines: a fixture with and without a second file, faults, refusals and round trips."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, CHARACTERS, VALUES, corpora, documents
from wardround.corpora.corpus_format import Problem
from wardround.corpora.smm4h import Smm4h
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Range, Relation

HEADER = "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term\n"
TWEET = "lunarol gave me rash and fever"
RASH = f"101\t16\t20\tADR\trash\tlunarol\t{TWEET}\t10037844\tRash\n"
FEVER = f"101\t25\t30\tADR\tfever\t-\t{TWEET}\t-\t-\n"
NONE = "102\t-\t-\t-\t-\t-\tslept well\t-\t-\n"
EXPECTED = [
    Document(
        "101",
        TWEET,
        (
            Entity("T1", "ADR", (Range(16, 20),), ("10037844",), (("drug", "lunarol"), ("meddra_term", "Rash"))),
            Entity("T2", "ADR", (Range(25, 30),)),
        ),
    ),
    Document("102", "slept well"),
]


def read(text: str, folder: Path, texts: Path | None = None) -> tuple[list[Document], list[Problem]]:
    (folder / "a.tsv").write_text(text, encoding="utf-8")
    problems: list[Problem] = []
    return list(Smm4h(texts).read(folder / "a.tsv", problems=problems.append)), problems


def test_lines_of_a_tweet_are_one_document(tmp_path: Path) -> None:
    assert read(HEADER + RASH + NONE + FEVER, tmp_path) == (EXPECTED, [])


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    text = f"tweet\tdrug\textraction\ttype\tend\tbegin\ttweet_id\n{TWEET}\tlunarol\trash\tADR\t20\t16\t101\n"
    found, problems = read(text, tmp_path)
    assert not problems
    assert found == [Document("101", TWEET, (Entity("T1", "ADR", (Range(16, 20),), (), (("drug", "lunarol"),)),))]


def test_tweets_of_a_second_file(tmp_path: Path) -> None:
    texts = tmp_path / "tweets.tsv"
    texts.write_text(f"tweet_id\ttweet\n102\tslept well\n101\t{TWEET}\n103\tnothing\n")
    text = "tweet_id\tbegin\tend\ttype\textraction\n101\t25\t30\tADR\tfever\n999\t0\t1\tADR\tx\n"
    found, problems = read(text, tmp_path, texts)
    assert [(document.id, len(document.entities)) for document in found] == [("102", 0), ("101", 1), ("103", 0)]
    assert [(problem.line, "no tweet with this id" in problem.message) for problem in problems] == [(3, True)]
    # The file of tweets is not read as a file of mentions.
    (tmp_path / "a.tsv").write_text(text.replace("999", "101"))
    with pytest.raises(CorpusError, match="differs from the text of the note"):
        list(Smm4h(texts).read(tmp_path))
    (tmp_path / "x").mkdir()
    with pytest.raises(CorpusError, match="differs from the text of the note"):
        list(Smm4h(tmp_path / "x" / ".." / "tweets.tsv").read(tmp_path))
    (tmp_path / "b.tsv").write_text(text)
    with pytest.raises(CorpusError, match="contains 2 files of mentions; with texts, name one"):
        list(Smm4h(texts).read(tmp_path))


def test_faults_of_the_second_file(tmp_path: Path) -> None:
    texts = tmp_path / "tweets.tsv"
    texts.write_text("101\tone\n102 no tab\n101\ttwice\n103\ta\tb\n")
    _, problems = read("tweet_id\tbegin\tend\ttype\textraction\n", tmp_path, texts)
    assert [(problem.path, problem.line) for problem in problems] == [(texts, line) for line in (2, 3, 4)]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (RASH.replace("\t20\t", "\t200\t"), "ends at 200, the text has 30 characters"),
        (RASH.replace("\t20\t", "\tx\t"), "not a number"),
        (RASH.replace("\trash\t", "\trush\t"), "differs from the text of the note"),
        (RASH.replace(TWEET, "another"), "differs from an earlier line"),
        ("101\t16\n", "has 2 columns, the header has 9"),
    ],
)
def test_a_faulty_line_is_reported_and_left_out(tmp_path: Path, line: str, part: str) -> None:
    found, problems = read(HEADER + FEVER + line + "\n" + NONE, tmp_path)
    assert [problem.line for problem in problems] == [3]
    assert part in problems[0].message
    assert [len(document.entities) for document in found] == [1, 0]


def test_a_header_with_missing_columns_is_refused(tmp_path: Path) -> None:
    found, problems = read("tweet_id\tbegin\tend\ttype\textraction\n1\t-\t-\t-\t-\n", tmp_path)
    assert not found
    assert [(problem.message, problem.line) for problem in problems] == [
        ("columns are missing in the header: tweet", 1)
    ]


ONE = Document("1", "a pain", (Entity("T1", "ADR", (Range(2, 6),)),))


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (replace(ONE, id="a\tb"), "id is empty or contains a tab"),
        (replace(ONE, text="a pain\n"), "one line"),
        (replace(ONE, relations=(Relation("R1", "is", "T1", "T1"),)), "cannot have relations"),
        (
            ONE.with_entities([Entity("T1", "ADR", (Range(0, 1), Range(2, 3)))]),
            "is discontinuous or has",
        ),
        (ONE.with_entities([Entity("T1", "ADR", (Range(0, 1),), ("a", "b"))]), "several concepts"),
        (ONE.with_entities([Entity("T1", "-", (Range(0, 1),))]), "means none"),
        (ONE.with_entities([Entity("T1", "ADR", (Range(0, 1),), ("-",))]), "means none"),
        (ONE.with_entities([Entity("T1", "ADR", (Range(0, 1),), (), (("drug", ""),))]), "is empty"),
    ],
)
def test_the_writer_refuses_what_the_format_cannot_hold(tmp_path: Path, document: Document, part: str) -> None:
    with pytest.raises(CorpusError, match=r"^a\.tsv: document ") as caught:
        Smm4h().write([document], tmp_path / "a.tsv")
    assert part in str(caught.value)
    assert not list(tmp_path.iterdir())


@st.composite
def held(draw: st.DrawFn) -> Document:
    """Draw one line of text; each mention has at most one concept, a drug and a term."""
    line = st.text(CHARACTERS.filter(lambda c: c not in "\t\n"), max_size=40)
    document = draw(documents(texts=line, overlapping=True))
    value = VALUES.filter(lambda v: v != "-")
    entities = tuple(
        replace(
            entity,
            concepts=tuple(draw(st.lists(value, max_size=1))),
            attributes=tuple((n, draw(value)) for n in ("drug", "meddra_term") if draw(st.booleans())),
        )
        for entity in document.entities
    )
    return replace(document, entities=entities)


@BRIEF
@given(corpora(held()))
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Smm4h().write(found, Path(folder) / "a.tsv.gz")
        assert list(Smm4h().read(Path(folder) / "a.tsv.gz")) == found


def test_the_format_can_be_written() -> None:
    assert Smm4h().can_write
