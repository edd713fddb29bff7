"""Drafts keep what fits and report the rest from its place."""

from __future__ import annotations

from pathlib import Path

from wardround.corpora.draft import Draft, Reporter
from wardround.corpora.source import Problem, Severity
from wardround.text.document import Document, Entity, Level, Range, Relation


def test_what_does_not_fit_is_reported_and_left_out() -> None:
    problems: list[Problem] = []
    report = Reporter(Path("x.ann"), problems.append)
    draft = Draft("0123456789")
    assert draft.add_entity("T1", "Drug", [(0, 3)], report.at(1))
    assert not draft.add_entity("T1", "Drug", [(0, 3)], report.at(2))
    assert not draft.add_entity("T2", "Drug", [(5, 11)], report.at(3))
    assert not draft.add_entity("T3", "Drug", [(5, 5)], report.at(4))
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
        (8, "relation R2 names T2, which is no mention here"),
        (10, "relation R4 names T1, which is no concept here"),
    ]
    assert draft.document("d", words=[Range(0, 3)]) == Document(
        "d",
        "0123456789",
        (Entity("T1", "Drug", (Range(0, 3),)), Entity("T4", "ADE", (Range(9, 10),), concepts=("c",))),
        (Relation("R1", "causes", "T1", "T4"), Relation("R3", "is", "c", "c", Level.CONCEPT)),
        words=(Range(0, 3),),
    )


def test_a_reporter_names_its_place() -> None:
    problems: list[Problem] = []
    report = Reporter(Path("x.json"), problems.append, item="item 3: ")
    report.warning("looks odd")
    report.at(7).error("is wrong")
    assert problems == [
        Problem("item 3: looks odd", Path("x.json"), None, Severity.WARNING),
        Problem("item 3: is wrong", Path("x.json"), 7),
    ]
