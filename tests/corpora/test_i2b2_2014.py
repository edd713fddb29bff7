"""The 2014 de-identification layout: a fixture, faults, refusals and round trips."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, XML_TEXTS, corpora, documents
from wardround.corpora.corpus_format import Problem
from wardround.corpora.i2b2_2014 import Granularity, I2b2Deid
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range, Relation

NOTE = """<?xml version="1.0" encoding="UTF-8" ?>
<deIdi2b2>
<TEXT><![CDATA[
Seen by <Dr. Quill> on
2090-01-02 & later.]]></TEXT>
<TAGS>
<NAME id="P0" start="14" end="19" text="Quill" TYPE="DOCTOR" comment="a bird" />
<DATE id="P1" start="24" end="34" text="2090-01-02" TYPE="DATE" comment="" />
</TAGS>
</deIdi2b2>
"""
TEXT = "\nSeen by <Dr. Quill> on\n2090-01-02 & later."


def read(text: str, folder: Path, granularity: Granularity = "type") -> tuple[list[Document], list[Problem]]:
    (folder / "n1.xml").write_text(text, encoding="utf-8")
    problems: list[Problem] = []
    return list(I2b2Deid(granularity).read(folder, problems=problems.append)), problems


def test_a_note(tmp_path: Path) -> None:
    found, problems = read(NOTE, tmp_path)
    assert not problems
    assert found == [
        Document(
            "n1",
            TEXT,
            (Entity("P0", "DOCTOR", (Range(14, 19),), note="a bird"), Entity("P1", "DATE", (Range(24, 34),))),
        )
    ]


def test_categories(tmp_path: Path) -> None:
    found, _ = read(NOTE, tmp_path, "category")
    assert [entity.type for entity in found[0].entities] == ["NAME", "DATE"]
    with pytest.raises(UsageError, match="type or category"):
        I2b2Deid("kind")  # type: ignore[arg-type]


def test_offsets_count_a_windows_line_end_once(tmp_path: Path) -> None:
    (tmp_path / "n1.xml").write_bytes(NOTE.replace("\n", "\r\n").encode())
    assert next(I2b2Deid().read(tmp_path)).text == TEXT


def test_ids_are_paths_below_the_folder(tmp_path: Path) -> None:
    for name in ("b/110-01.xml", "a/110-01.xml", "c.d.xml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(NOTE)
    assert [document.id for document in I2b2Deid().read(tmp_path)] == ["a/110-01", "b/110-01", "c.d"]
    assert [document.id for document in I2b2Deid().read(tmp_path / "a" / "110-01.xml")] == ["110-01"]


@pytest.mark.parametrize(
    ("old", "new", "line", "part"),
    [
        ('start="14"', 'start="13"', 7, "differs from the text of the note at its offsets"),
        ('end="19"', 'end="190"', 7, "P0 ends at 190, the text has 43 characters"),
        ('end="19"', 'end="-1"', 7, "no start or no end"),
        ('end="19"', "", 7, "no start or no end"),
        ('TYPE="DOCTOR"', "", 7, "no type"),
        ('id="P1"', 'id="P0"', 8, "P0"),
        ("</TAGS>", "", 10, "not well-formed"),
        ("TEXT>", "NOTE>", None, "0 TEXT elements"),
    ],
)
def test_a_faulty_part_is_reported(tmp_path: Path, old: str, new: str, line: int | None, part: str) -> None:
    (tmp_path / "n2.xml").write_text(NOTE)
    found, problems = read(NOTE.replace(old, new), tmp_path)
    assert [problem.line for problem in problems] == [line]
    assert part in problems[0].message
    assert found[-1].id == "n2"
    assert [len(document.entities) for document in found] in ([1, 2], [2])


ONE = Document("1", "a pain", (Entity("T1", "NAME", (Range(2, 6),)),))


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (replace(ONE, text="a pain\x00"), "U+0000"),
        (replace(ONE, relations=(Relation("R1", "is", "T1", "T1"),)), "relations"),
        (ONE.with_entities([Entity("T1", "NAME", (Range(0, 1), Range(2, 3)))]), "discontinuous"),
        (ONE.with_entities([Entity("T1", "A B", (Range(0, 1),))]), "cannot be a tag name"),
        *[
            (replace(ONE, id=name), "be a file name")
            for name in ("", "../up", "/etc/x", "a//b", "a/.", "a\\b", "\x00", "x" * 201)
        ],
    ],
)
def test_the_writer_refuses_what_the_format_cannot_hold(tmp_path: Path, document: Document, part: str) -> None:
    with pytest.raises(CorpusError) as caught:
        I2b2Deid("category").write([document], tmp_path / "notes")
    assert part in str(caught.value)
    assert not list(tmp_path.rglob("*.xml"))


def test_two_documents_with_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="two documents have the id '1'"):
        I2b2Deid().write([ONE, ONE], tmp_path)


def test_the_category_of_a_type_is_written(tmp_path: Path) -> None:
    kinds = ["PATIENT", "HOSPITAL", "PHONE", "MEDICALRECORD", "SHOE-SIZE"]
    document = Document("1", "abcde", tuple(Entity(f"P{i}", k, (Range(i, i + 1),)) for i, k in enumerate(kinds)))
    I2b2Deid().write([document], tmp_path)
    assert list(I2b2Deid().read(tmp_path)) == [document]
    found = list(I2b2Deid("category").read(tmp_path))
    assert [entity.type for entity in found[0].entities] == ["NAME", "LOCATION", "CONTACT", "ID", "OTHER"]


@BRIEF
@given(
    corpora(
        documents(
            texts=st.one_of(XML_TEXTS, st.just("a]]>b]]]>\r\n\r]]")), types=("PATIENT", "DATE", "ID"), overlapping=True
        )
    ),
    st.sampled_from(get_args(Granularity)),
)
def test_round_trip(found: list[Document], granularity: Granularity) -> None:
    with tempfile.TemporaryDirectory() as folder:
        I2b2Deid(granularity).write(found, Path(folder) / "notes")
        if found:
            assert list(I2b2Deid(granularity).read(Path(folder) / "notes")) == found


def test_the_format_can_be_written() -> None:
    assert I2b2Deid().can_write
