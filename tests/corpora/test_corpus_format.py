"""Drafts keep the parts that fit and report the others; fields of files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wardround.corpora.corpus_format import (
    OFFSETS,
    Draft,
    Problem,
    Reporter,
    Severity,
    check_plain,
    is_plain,
    join_concepts,
    offset_pairs,
    split_concepts,
    whole_number,
)
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Range, Relation


def test_faulty_parts_are_reported_and_left_out() -> None:
    problems: list[Problem] = []
    report = Reporter(Path("x.ann"), problems.append)
    draft = Draft("0123456789")
    assert draft.add_entity(report.at(1), entity_id="T1", kind="Drug", ranges=[(0, 3)])
    assert not draft.add_entity(report.at(2), entity_id="T1", kind="Drug", ranges=[(0, 3)])
    assert not draft.add_entity(report.at(3), entity_id="T2", kind="Drug", ranges=[(5, 11)])
    assert not draft.add_entity(report.at(4), entity_id="T3", kind="Drug", ranges=[(5, 5)])
    assert draft.keep_entity(Entity("T4", "ADE", (Range(9, 10),), concepts=("c",)), report.at(5))
    draft.add_relation(Relation("R1", "causes", "T1", "T4"), report.at(6))
    draft.add_relation(Relation("R1", "causes", "T4", "T1"), report.at(7))
    draft.add_relation(Relation("R2", "causes", "T1", "T2"), report.at(8))
    draft.add_relation(Relation("R3", "is", "c", "c", Level.CONCEPT), report.at(9))
    draft.add_relation(Relation("R4", "is", "c", "T1", Level.CONCEPT), report.at(10))
    assert [(p.line, p.message) for p in problems] == [
        (2, "a second entity has the id T1"),
        (3, "T2 ends at 11, the text has 10 characters"),
        (4, "entity 'T3': range 5-5 is empty"),
        (7, "a second relation has the id R1"),
        (8, "relation R2 has a tail that is not a mention here; it is left out"),
        (10, "relation R4 names a concept that no mention here has; it is left out"),
    ]
    assert draft.document("d", words=[Range(0, 3)]) == Document(
        "d",
        "0123456789",
        (Entity("T1", "Drug", (Range(0, 3),)), Entity("T4", "ADE", (Range(9, 10),), concepts=("c",))),
        (Relation("R1", "causes", "T1", "T4"), Relation("R3", "is", "c", "c", Level.CONCEPT)),
        words=(Range(0, 3),),
    )


def test_words_must_equal_the_text_except_for_white_space() -> None:
    problems: list[Problem] = []
    report = Reporter(Path("x.xml"), problems.append)
    draft = Draft("skin and\r\nface burns", words_in="text element")
    ranges = [(15, 20), (0, 4)]
    assert draft.add_entity(report, entity_id="T1", kind="ADE", ranges=ranges, words="burns skin", note="sure")
    assert draft.add_entity(report, entity_id="T2", kind="ADE", ranges=[(0, 14)], words="skin and face")
    assert not draft.add_entity(report, entity_id="T3", kind="ADE", ranges=ranges, words="skin burns")
    assert not draft.add_entity(report, entity_id="T4", kind="ADE", ranges=[(0, 4)], words="")
    assert not draft.add_entity(report, entity_id="T5", kind="ADE", ranges=[(0, 99)], words="skin")
    assert [problem.message for problem in problems] == [
        "T3: the text element differs from the text of the note at its offsets",
        "T4: the text element differs from the text of the note at its offsets",
        "T5 ends at 99, the text has 20 characters",
    ]
    assert list(draft.entities.values()) == [
        Entity("T1", "ADE", (Range(0, 4), Range(15, 20)), note="sure"),
        Entity("T2", "ADE", (Range(0, 14),)),
    ]


def test_a_relation_may_name_concepts_that_were_added_later() -> None:
    problems: list[Problem] = []
    report = Reporter(Path("x.ann"), problems.append)
    draft = Draft("abc")
    draft.add_entity(report, entity_id="T1", kind="Drug", ranges=[(0, 3)])
    draft.replace_entity(Entity("T1", "Drug", (Range(0, 3),), concepts=("c",)))
    draft.add_relation(Relation("R1", "is", "c", "c", Level.CONCEPT), report)
    assert list(draft.relations) == ["R1"]
    assert not problems


def test_unknown_names_are_not_quoted() -> None:
    problems: list[Problem] = []
    draft = Draft("abc")
    for level in Level:
        draft.add_relation(Relation("R1", "is", "secret", "secret", level), Reporter(Path("x.ann"), problems.append))
    assert len(problems) == 2
    assert not any("secret" in problem.message for problem in problems)


def test_a_reporter_names_its_place() -> None:
    problems: list[Problem] = []
    report = Reporter(Path("x.json"), problems.append, item="item 3: ")
    report.warning("looks odd")
    report.at(7).error("is wrong")
    assert problems == [
        Problem("item 3: looks odd", Path("x.json"), None, Severity.WARNING),
        Problem("item 3: is wrong", Path("x.json"), 7),
    ]


def test_concept_ids() -> None:
    assert split_concepts("a, b;c", ",;") == ("a", "b", "c")
    assert split_concepts("c|SUB|G|1|A", ",;") == ("c|SUB|G|1|A",)
    assert split_concepts("a|b", "|") == ("a", "b")
    assert split_concepts("a,b", "") == ("a,b",)
    assert split_concepts("-", ",;") == split_concepts("-1", ",;") == split_concepts("", ",;") == ()
    assert join_concepts(["a", "b"], ",;") == "a,b"
    with pytest.raises(CorpusError):
        join_concepts(["a", "b"], "")


def test_whole_numbers() -> None:
    assert [whole_number(text) for text in ("0", "12", "-1", "1.0", "", "٣", "1" * 13)] == [0, 12, *[None] * 5]


def test_offsets() -> None:
    assert offset_pairs("3 7") == [(3, 7)]
    assert offset_pairs("12 15;3 7") == [(12, 15), (3, 7)]
    faulty = ("", "3", "3 7;", "3  7", "3 7 12 15", "-3 7", "٣ 7", f"3 {'7' * 13}")
    assert [text for text in ("3 7", "12 15;3 7", *faulty) if re.fullmatch(OFFSETS, text)] == ["3 7", "12 15;3 7"]


def test_a_column_cannot_contain_tabs_or_line_ends() -> None:
    assert [text for text in ("", "a b", "a\tb", "a\n", "\ra", "\u2028") if is_plain(text)] == ["", "a b", "\u2028"]
    check_plain("the type", "a b")
    for value in ("", "a\tb"):
        with pytest.raises(CorpusError, match=r"^the type is empty or contains a tab or a line end"):
            check_plain("the type", value)
