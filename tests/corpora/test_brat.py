"""brat standoff: every kind of line, faults by line, and read(write(x)) == x."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import ANY_CHARACTERS, BRIEF, corpora, documents
from wardround.corpora.brat import Brat
from wardround.corpora.corpus_format import Problem, Severity
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Range, Relation

TEXT = "Aspirin gave him 😀 skin and\nface burns.\n"
ANNOTATIONS = (
    "R1\tCauses Arg1:T1 Arg2:T2\t\n"
    "T1\tDrug 0 7\tAspirin\n"
    "T2\tADE 19 23;33 38\tskin burns\n"
    "T3\tADE 19 32\tskin and face\n"
    "A1\tNegation T2\n"
    "M1\tSeverity T2 very high\n"
    "A2\tCertain R1 yes\n"
    "N1\tReference T1 RxNorm:1191\taspirin\n"
    "#1\tAnnotatorNotes T2\tnot sure\n"
    "#2\tAnnotatorNotes T2\tasked\n"
)


def note(folder: Path, annotations: str | None, text: str = TEXT, name: str = "n12") -> Path:
    (folder / f"{name}.txt").write_bytes(text.encode())
    if annotations is not None:
        (folder / f"{name}.ann").write_bytes(annotations.encode())
    return folder


def collect(path: Path) -> tuple[list[Document], list[Problem]]:
    problems: list[Problem] = []
    return list(Brat().read(path, problems=problems.append)), problems


def test_every_kind_of_line(tmp_path: Path) -> None:
    (found,) = Brat().read(note(tmp_path, ANNOTATIONS))
    assert (found.id, found.text) == ("n12", TEXT)
    assert found.entities == (
        Entity("T1", "Drug", (Range(0, 7),), concepts=("RxNorm:1191",)),
        Entity(
            "T2",
            "ADE",
            (Range(19, 23), Range(33, 38)),
            attributes=(("Negation", ""), ("Severity", "very high")),
            note="not sure\nasked",
        ),
        Entity("T3", "ADE", (Range(19, 32),)),
    )
    assert found.relations == (Relation("R1", "Causes", "T1", "T2", attributes=(("Certain", "yes"),)),)


def test_offsets_survive_carriage_returns(tmp_path: Path) -> None:
    text = "a\r\nskin\r\nburns"
    (found,) = Brat().read(note(tmp_path, "T1\tADE 3 14\tskin\r burns\r\n", text))
    assert found.text == text
    assert found.entities[0].text_in(found.text) == "skin\r\nburns"


@pytest.mark.parametrize("words", ["skin burns", "skinburns", "skin  burns", "skin\u00a0burns "])
def test_words_of_a_discontinuous_mention_may_differ_in_white_space(tmp_path: Path, words: str) -> None:
    """The DDI corpus in brat has such mentions."""
    (found,) = Brat().read(note(tmp_path, f"T1\tADE 19 23;33 38\t{words}\n"))
    assert found.entities[0].ranges == (Range(19, 23), Range(33, 38))


@pytest.mark.parametrize(("start", "text"), [(0, "Aspirin."), (1, "\ufeffAspirin.")])
def test_a_byte_order_mark_stays_only_if_the_offsets_count_it(tmp_path: Path, start: int, text: str) -> None:
    (found,) = Brat().read(note(tmp_path, f"T1\tDrug {start} {start + 7}\tAspirin\n", "\ufeffAspirin."))
    assert found.text == text
    assert found.entities[0].text_in(found.text) == "Aspirin"


def test_ranges_out_of_order_and_swapped_arguments(tmp_path: Path) -> None:
    lines = "T1\tADE 33 38;19 23\tburns skin\nT2\tDrug 0 7\tAspirin\nR1\tCauses Arg2:T1 Arg1:T2\n"
    (found,) = Brat().read(note(tmp_path, lines))
    assert found.entities[0].ranges == (Range(19, 23), Range(33, 38))
    assert (found.relations[0].head, found.relations[0].tail) == ("T2", "T1")


@pytest.mark.parametrize("name", ["n12.txt", "n12.ann"])
def test_path_of_a_single_note(tmp_path: Path, name: str) -> None:
    note(note(tmp_path, ANNOTATIONS), ANNOTATIONS, name="other")
    assert [found.id for found in Brat().read(tmp_path / name)] == ["n12"]


def test_ids_contain_folders_and_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "ward").mkdir()
    note(tmp_path / "ward", ANNOTATIONS)
    (tmp_path / "z.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "z.ann.gz").write_bytes(gzip.compress(b"T1\tDrug 0 7\tAspirin\n"))
    found = list(Brat().read(tmp_path))
    assert [(one.id, len(one.entities)) for one in found] == [("ward/n12", 3), ("z", 1)]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("T1\tDrug 0 412\tAspirin", "n12.ann:1: T1 ends at 412, the text has 40 characters"),
        ("T1\tDrug 0 6\tsecret", "n12.ann:1: T1: the text column differs from the text of the note at its offsets"),
        ("T1\tDrug 0 7", "n12.ann:1: T1: the text column differs from the text of the note at its offsets"),
        ("T1\tDrug 7 7\t", "n12.ann:1: entity 'T1': range 7-7 is empty"),
        ("\nT1\tsecret", "n12.ann:2: T1 does not have the form 'type start end'"),
        ("T1\tDrug 0 7\tAspirin\nT1\tDrug 0 7\tAspirin", "n12.ann:2: a second entity has the id T1"),
        ("R1\tCauses Arg1:T1 Arg2:T2", "n12.ann:1: relation R1 has a head that is not a mention here; it is left out"),
        (
            "T1\tDrug 0 7\tAspirin\nR1\tCauses Arg1:T1 Arg2:T1\nR1\tIs Arg1:T1 Arg2:T1",
            "n12.ann:3: a second relation has the id R1",
        ),
        ("R1\tCauses T1", "n12.ann:1: R1 does not have the form 'type Arg1:id Arg2:id'"),
        ("A1\tNegation", "n12.ann:1: A1 does not have the form 'name target value'"),
        ("A1\tNegation T9", "n12.ann:1: A1 refers to something that is not a mention here"),
        ("N1\tReference T1", "n12.ann:1: N1 does not have the form 'Reference target resource:id'"),
        ("#1\tAnnotatorNotes T9\tsecret", "n12.ann:1: #1 refers to something that is not a mention here"),
    ],
)
def test_faults_name_the_line_and_do_not_quote_it(tmp_path: Path, lines: str, fault: str) -> None:
    with pytest.raises(CorpusError) as caught:
        list(Brat().read(note(tmp_path, lines)))
    assert str(caught.value) == fault


def test_a_note_read_as_annotations_is_not_quoted(tmp_path: Path) -> None:
    _, problems = collect(note(tmp_path, "The secret\tis out\nRather secret\n"))
    assert [problem.line for problem in problems] == [1, 2]
    assert not any("secret" in problem.message for problem in problems)


def test_everything_except_the_faulty_part_is_kept(tmp_path: Path) -> None:
    lines = "T1\tDrug 0 999\tx\nT2\tDrug 0 7\tAspirin\nR1\tCauses Arg1:T1 Arg2:T2\n"
    (found,), problems = collect(note(tmp_path, lines))
    assert [entity.id for entity in found.entities] == ["T2"]
    assert [problem.line for problem in problems] == [1, 3]


def test_each_unsupported_line_gives_a_warning(tmp_path: Path) -> None:
    lines = (
        "T1\tDrug 0 7\tAspirin\nE1\tGiving:T1\n*\tEquiv T1 T1\nA1\tNegation E1\n"
        "R1\tCauses Arg1:E1 Arg2:T1\n#1\tAnnotatorNotes E1\tx\n"
    )
    (found,), problems = collect(note(tmp_path, lines))
    assert len(found.entities) == 1
    assert sorted((p.line, p.severity) for p in problems) == [(n, Severity.WARNING) for n in (2, 3, 4, 5, 6)]


def test_missing_annotations_are_a_warning_and_a_missing_note_an_error(tmp_path: Path) -> None:
    note(tmp_path, None)
    (tmp_path / "lost.ann").write_text("")
    found, problems = collect(tmp_path)
    assert [(one.id, one.entities) for one in found] == [("n12", ())]
    assert [(p.path.name if p.path else "", p.severity) for p in problems] == [
        ("lost.ann", Severity.ERROR),
        ("n12.txt", Severity.WARNING),
    ]


def test_the_note_after_an_undecodable_one_is_read(tmp_path: Path) -> None:
    note(tmp_path, ANNOTATIONS)
    (tmp_path / "a.txt").write_bytes(b"\xe9")
    found, problems = collect(tmp_path)
    assert [one.id for one in found] == ["n12"]
    assert [p.severity for p in problems if p.path == tmp_path / "a.txt"] == [Severity.ERROR]


def test_unsuitable_ids_are_replaced_by_numbers(tmp_path: Path) -> None:
    entities = (Entity("x", "Drug", (Range(0, 7),)), Entity("T1", "ADE", (Range(19, 23),)))
    relations = (Relation("", "Causes", "x", "T1"),)
    Brat().write([Document("d", TEXT, entities, relations)], tmp_path)
    (found,) = Brat().read(tmp_path)
    assert [(entity.id, entity.type) for entity in found.entities] == [("T1", "Drug"), ("T2", "ADE")]
    assert found.relations == (Relation("R1", "Causes", "T1", "T2"),)


@pytest.mark.parametrize("name", ["../x", "/x", "", ".", "a/../x", "a//b", "a\nb", "a\\b", "x" * 300, "\ud800"])
def test_an_id_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="cannot be a file name"):
        Brat().write([Document(name, "text")], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_repeated_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="two documents have the id 'd'"):
        Brat().write([Document("d", "a"), Document("d", "b")], tmp_path)


@pytest.mark.parametrize(
    "entity",
    [
        Entity("T1", "a b", (Range(0, 1),)),
        Entity("T1", "a", (Range(0, 1),), concepts=("",)),
        Entity("T1", "a", (Range(0, 1),), concepts=("x\ty",)),
        Entity("T1", "a", (Range(0, 1),), attributes=(("two words", "x"),)),
        Entity("T1", "a", (Range(0, 1),), attributes=(("x", "two\nlines"),)),
    ],
)
def test_fields_that_do_not_fit_a_line_are_refused(tmp_path: Path, entity: Entity) -> None:
    with pytest.raises(CorpusError, match="white space that brat does not allow"):
        Brat().write([Document("d", "text", (entity,))], tmp_path)


def test_concept_relations_are_refused(tmp_path: Path) -> None:
    entity = Entity("T1", "Drug", (Range(0, 1),), concepts=("c",))
    with pytest.raises(CorpusError, match="relates concepts"):
        Brat().write([Document("d", "x", (entity,), (Relation("R1", "x", "c", "c", Level.CONCEPT),))], tmp_path)


@BRIEF
@given(
    corpora(
        documents(
            texts=st.text(ANY_CHARACTERS, max_size=60),
            discontinuous=True,
            overlapping=True,
            relations=True,
            extras=True,
        )
    )
)
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        Brat().write(found, path)
        if found:
            again, problems = collect(path)
            assert (again, problems) == (found, [])


@BRIEF
@given(st.text(st.sampled_from("ab \t\n"), max_size=8))
def test_a_remark_keeps_its_lines(remark: str) -> None:
    document = Document("d", "text", (Entity("T1", "Drug", (Range(0, 1),), note=remark),))
    with tempfile.TemporaryDirectory() as folder:
        Brat().write([document], Path(folder))
        assert list(Brat().read(Path(folder))) == [document]


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("split", "notes", "mentions"), [("train", 500, 11_333), ("dev", 250, 5_801), ("test", 250, 5_661)]
)
def test_counts_of_meddocan(shared_data: Path, split: str, notes: int, mentions: int, tmp_path: Path) -> None:
    found, problems = collect(shared_data / "meddocan" / "corpus" / split)
    assert (len(found), sum(len(one.entities) for one in found), problems) == (notes, mentions, [])


@pytest.mark.corpus
def test_meddocan_is_written_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "meddocan" / "corpus" / "dev"
    Brat().write(Brat().read(path), tmp_path)
    written = sorted(file for file in tmp_path.rglob("*") if file.is_file())
    assert len(written) == 500
    assert all(file.read_bytes() == (path / file.relative_to(tmp_path)).read_bytes() for file in written)
