"""Masked pairs: a fixture, faults, refusals, round trips, and the totals of GAD and EU-ADR."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, CHARACTERS
from wardround.corpora.corpus_format import Problem
from wardround.corpora.pair_tsv import PairTsv
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Level, Range, Relation

LINKED = "A variant of @GENE$ goes with @DISEASE$."  # 13-19 and 30-39
REVERSED = "In @DISEASE$, @GENE$ and @GENE$ are quiet."  # 3-12 and 14-20


def read(text: str, folder: Path, name: str = "train.tsv") -> tuple[list[Document], list[Problem]]:
    (folder / name).write_text(text, encoding="utf-8")
    problems: list[Problem] = []
    return list(PairTsv().read(folder / name, problems=problems.append)), problems


EXPECTED = [
    Document(
        "train-0",
        LINKED,
        (Entity("T1", "Gene", (Range(13, 19),)), Entity("T2", "Disease", (Range(30, 39),))),
        (Relation("R1", "association", "T1", "T2"),),
        attributes=(("label", "1"),),
    ),
    Document(
        "train-1",
        REVERSED,
        (Entity("T1", "Disease", (Range(3, 12),)), Entity("T2", "Gene", (Range(14, 20),))),
        attributes=(("label", "0"),),
    ),
]


def test_without_header(tmp_path: Path) -> None:
    assert read(f"{LINKED}\t1\n{REVERSED}\t0\n", tmp_path) == (EXPECTED, [])


def test_with_header(tmp_path: Path) -> None:
    found, problems = read(f"index\tsentence\tlabel\r\n7\t{LINKED}\t1\r\n9\t{REVERSED}\t0\r\n", tmp_path, "test.tsv")
    assert not problems
    assert found == [replace(EXPECTED[0], id="test-7"), replace(EXPECTED[1], id="test-9")]


def test_the_disease_is_the_tail_of_the_relation(tmp_path: Path) -> None:
    found, _ = read(f"{REVERSED}\t1\n@GENE$ binds @CHEMICAL$\t1\n@DRUG$, @DRUG$ or @DRUG$\t1\n", tmp_path)
    assert [(r.head, r.tail) for document in found for r in document.relations] == [("T2", "T1")] + [("T1", "T2")] * 2
    assert [[(e.type, e.envelope) for e in document.entities] for document in found[1:]] == [
        [("Gene", Range(0, 6)), ("Chemical", Range(13, 23))],
        [("Drug", Range(0, 6)), ("Drug", Range(8, 14))],
    ]


def test_a_folder_and_its_empty_file(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "dev.tsv").write_text("")
    (tmp_path / "1" / "train.tsv").write_text(f"{LINKED}\t1\n")
    assert [document.id for document in PairTsv("binds").read(tmp_path)] == ["1/train-0"]
    assert next(PairTsv("binds").read(tmp_path)).relations[0].type == "binds"
    with pytest.raises(UsageError, match="positive_type"):
        PairTsv("")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (f"{LINKED}", "columns"),
        (f"0\t{LINKED}\t1", "columns"),
        ("Index\tsentence\tlabel", "columns"),
        (f"{LINKED}\t2", "neither 0 nor 1"),
        ("Only @GENE$ here.\t1", "two placeholders"),
        ("@gene$ and @DISEASE$\t0", "two placeholders"),
    ],
)
def test_a_faulty_line_is_reported_and_left_out(tmp_path: Path, line: str, part: str) -> None:
    found, problems = read(f"{line}\n\n{LINKED}\t1\n", tmp_path)
    assert [problem.line for problem in problems] == [1]
    assert part in problems[0].message
    assert found == [replace(EXPECTED[0], id="train-1")]


def test_mentions_are_masked(tmp_path: Path) -> None:
    entities = (Entity("g", "Gene", (Range(9, 13),)), Entity("d", "Disease", (Range(0, 5),)))
    document = Document("x", "Fever in ABC1.", entities, (Relation("r", "association", "g", "d"),))
    PairTsv().write([document], tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == "index\tsentence\tlabel\n0\t@DISEASE$ in @GENE$.\t1\n"


ONE = EXPECTED[0]


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (replace(ONE, text=LINKED + "\n"), "tab or a line end"),
        (replace(ONE, attributes=(("label", "0"),)), "contradict"),
        (replace(ONE, relations=(Relation("R1", "other", "T1", "T2"),)), "relation"),
        (replace(ONE, relations=(Relation("R1", "association", "T2", "T1"),)), "relation"),
        (replace(ONE, relations=(*ONE.relations, Relation("R2", "association", "T1", "T2"))), "relation"),
        (
            Document(
                "x",
                LINKED,
                tuple(replace(entity, concepts=("D1",)) for entity in ONE.entities),
                (Relation("R1", "association", "D1", "D1", Level.CONCEPT),),
            ),
            "relation",
        ),
        (ONE.with_entities(ONE.entities[:1]), "needs two continuous mentions"),
        (
            Document("x", "ab", (Entity("T1", "Gene", (Range(0, 1),)), Entity("T2", "gene", (Range(1, 2),)))),
            "capitalised",
        ),
        (
            Document("x", "@GENE$ab", (Entity("T1", "Gene", (Range(6, 7),)), Entity("T2", "Disease", (Range(7, 8),)))),
            "earlier placeholder",
        ),
    ],
)
def test_the_writer_refuses_what_the_format_cannot_hold(tmp_path: Path, document: Document, part: str) -> None:
    if document.attributes == ONE.attributes and not document.relations:
        document = replace(document, attributes=())
    with pytest.raises(CorpusError, match=r"^a\.tsv: document ") as caught:
        PairTsv().write([document], tmp_path / "a.tsv")
    assert part in str(caught.value)
    assert not list(tmp_path.iterdir())


@st.composite
def held(draw: st.DrawFn) -> tuple[str, str, str, str, str, str]:
    piece = st.text(CHARACTERS.filter(lambda c: c not in "\t\n@$"), max_size=12)
    kinds = draw(st.permutations(["GENE", "DISEASE", "CHEMICAL"]))[:2]
    return draw(piece), kinds[0], draw(piece), kinds[1], draw(piece), draw(st.sampled_from("01"))


@BRIEF
@given(st.lists(held(), max_size=4))
def test_round_trip(rows: list[tuple[str, ...]]) -> None:
    found = []
    for index, (before, first, between, second, after, label) in enumerate(rows):
        text = f"{before}@{first}${between}@{second}${after}"
        start = len(before) + len(first) + 2 + len(between)
        entities = (
            Entity("T1", first.capitalize(), (Range(len(before), len(before) + len(first) + 2),)),
            Entity("T2", second.capitalize(), (Range(start, start + len(second) + 2),)),
        )
        ends = ("T2", "T1") if first == "DISEASE" else ("T1", "T2")
        relations = (Relation("R1", "association", *ends),) if label == "1" else ()
        found.append(Document(f"a-{index}", text, entities, relations, attributes=(("label", label),)))
    assume(not found or not found[0].text.startswith("\ufeff"))
    with tempfile.TemporaryDirectory() as folder:
        PairTsv().write(found, Path(folder) / "a.tsv.gz")
        assert list(PairTsv().read(Path(folder) / "a.tsv.gz")) == found


def test_the_format_can_be_written() -> None:
    assert PairTsv().can_write


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "folds", "positive", "negative"), [("GAD", 5, 2_801, 2_529), ("euadr", 10, 262, 93)])
def test_every_fold_contains_the_whole_corpus(
    shared_data: Path, name: str, folds: int, positive: int, negative: int
) -> None:
    for fold in range(1, folds + 1):
        problems: list[Problem] = []
        folder = shared_data / "biobert_re" / name / str(fold)
        found = list(PairTsv().read(folder, problems=problems.append))
        assert not problems
        assert Counter(dict(document.attributes)["label"] for document in found) == {"1": positive, "0": negative}
        assert sum(len(document.relations) for document in found) == positive
        assert {tuple(sorted(e.type for e in document.entities)) for document in found} == {("Disease", "Gene")}
        assert len({document.id for document in found}) == len(found)
        assert not list(PairTsv().read(folder / "dev.tsv"))
