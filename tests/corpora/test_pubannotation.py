from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.corpora.corpus_format import Problem
from wardround.corpora.pubannotation import Pubannotation
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Relation

NOTE = Document(
    "n1",
    "Rash after lunarol 😀 and fever",
    (
        Entity("T1", "ADE", ((0, 4), (25, 30)), concepts=("D1", "D2"), attributes=(("negated", "false"),), score=0.5),
        Entity("T2", "Drug", ((11, 18),)),
    ),
    (Relation("R1", "causes", "T2", "T1", score=0.25),),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    Pubannotation().write([NOTE, Document("n2", "")], tmp_path / "a.json")
    first, second = Pubannotation().read(tmp_path / "a.json")
    assert first == NOTE
    assert [entity.score for entity in first.entities] == [0.5, None]
    assert first.relations[0].score == 0.25
    assert second == Document("n2", "")


def test_the_shape_is_that_of_pubannotation(tmp_path: Path) -> None:
    Pubannotation().write([NOTE], tmp_path / "a.json")
    (found,) = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert found["denotations"] == [
        {"id": "T1", "span": [{"begin": 0, "end": 4}, {"begin": 25, "end": 30}], "obj": "ADE"},
        {"id": "T2", "span": {"begin": 11, "end": 18}, "obj": "Drug"},
    ]
    assert found["relations"] == [{"id": "R1", "subj": "T2", "pred": "causes", "obj": "T1"}]
    assert {"id": "A1", "subj": "T1", "pred": "score", "obj": 0.5} in found["attributes"]


def test_one_document_without_ids_is_read(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text(
        '{"text": "Rash", "denotations": [{"span": {"begin": 0, "end": 4}, "obj": "ADE"}]}'
    )
    (found,) = Pubannotation().read(tmp_path / "note.json")
    assert (found.id, found.entities) == ("note", (Entity("T1", "ADE", ((0, 4),)),))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ('{"text": 3}', "is not an object with a text"),
        ('{"text": "x", "denotations": 3}', "denotations is not a list of objects"),
        ('{"text": "x", "denotations": [{"id": "T1", "obj": "A"}]}', "has no span with begin and end"),
        ('{"text": "x", "denotations": [{"span": {"begin": 0, "end": 9}, "obj": "A"}]}', "T1 ends at 9"),
        ('{"text": "x", "denotations": [{"span": {"begin": 0, "end": 1}}]}', "a denotation needs an obj"),
        ('{"text": "x", "relations": [{"id": "R1"}]}', "a relation needs id, pred, subj and obj"),
        ('{"text": "x", "attributes": [{"subj": "T9", "pred": "p", "obj": "o"}]}', "is not a mention here"),
    ],
)
def test_a_faulty_part_is_reported_without_the_note(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content)
    problems = list[Problem]()
    list(Pubannotation().read(tmp_path / "a.json", problems=problems.append))
    assert [message in problem.message for problem in problems] == [True]


def test_relations_between_concepts_are_refused(tmp_path: Path) -> None:
    note = Document(
        "n1", "x", (Entity("T1", "A", ((0, 1),), ("D1",)),), (Relation("R1", "r", "D1", "D1", Level.CONCEPT),)
    )
    with pytest.raises(CorpusError, match="relations between concepts cannot be written"):
        Pubannotation().write([note], tmp_path / "a.json")
