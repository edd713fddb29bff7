"""Label Studio's JSON: spans, relations, cancelled annotations, faults by task, and round trips."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import ANY_CHARACTERS, BRIEF, corpora, documents
from wardround.corpora.corpus_format import Problem, Severity
from wardround.corpora.label_studio import LabelStudio
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Range, Relation

TEXT = "😀 Aspirin burns."


def span(name: str, start: int, end: int, *labels: str, **value: Any) -> dict[str, Any]:
    return {"id": name, "type": "labels", "value": {"start": start, "end": end, "labels": list(labels), **value}}


def task(*results: Any, **more: Any) -> dict[str, Any]:
    return {"id": 7, "data": {"text": TEXT}, "annotations": [{"result": list(results)}], **more}


def collect(folder: Path, tasks: Any) -> tuple[list[Document], list[Problem]]:
    (folder / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    problems: list[Problem] = []
    return list(LabelStudio().read(folder, problems=problems.append)), problems


def test_spans_and_relations(tmp_path: Path) -> None:
    relation = {"type": "relation", "from_id": "b", "to_id": "a", "direction": "left", "labels": ["causes"]}
    choice = {"id": "c", "type": "choices", "value": {"choices": ["good"]}}
    results = (span("a", 3, 10, "Drug", "Brand", text="Aspirin"), span("b", 11, 16, "ADE"), relation, choice)
    (found,), problems = collect(tmp_path, [task(*results)])
    assert problems == []
    assert found == Document(
        "7",
        TEXT,
        (
            Entity("a", "Drug", (Range(2, 9),)),
            Entity("T2", "Brand", (Range(2, 9),)),
            Entity("b", "ADE", (Range(10, 15),)),
        ),
        (Relation("R1", "causes", "a", "b"),),
    )


def test_the_first_annotation_that_was_not_cancelled_is_read(tmp_path: Path) -> None:
    annotations = [
        {"was_cancelled": True, "result": [span("x", 0, 1, "No")]},
        {"result": [span("a", 3, 10, "Drug")]},
        {"result": [span("b", 3, 10, "Other")]},
    ]
    (found,), problems = collect(tmp_path, [task(annotations=annotations)])
    assert [entity.type for entity in found.entities] == ["Drug"]
    assert [(p.severity, p.message) for p in problems] == [
        (Severity.WARNING, "task 1: has 2 annotations; only the first one is read")
    ]


@pytest.mark.parametrize(
    ("tasks", "fault"),
    [
        ({"id": 1}, "is not an array of tasks; export it as JSON"),
        ([3], "task 1: has no text under data, 'text'; --option text=KEY names another key"),
        ([{"data": {"note": "x"}}], "task 1: has no text under data, 'text'; its data has note; --option text=KEY"),
        ([{"data": {"text": "https:" * 3}, "annotations": 5}], "task 1: 'annotations' is not a list"),
        ([task(span("a", 3, 999, "Drug"))], "task 1: result 1: a ends at 999, the text has 16 characters"),
        ([task(span("a", 3, 10, "Drug", text="secret"))], "task 1: result 1: a: the text column differs"),
        ([task(span("a", True, 10, "Drug"))], "task 1: result 1: has no offsets 'start' and 'end'; left out"),
        ([task({"type": "labels", "value": 3})], "task 1: result 1: has no labels; left out"),
        ([task(5)], "task 1: result 1: is not an object"),
        ([task({"type": "relation", "from_id": "x", "to_id": "y"})], "task 1: relation R1 has a head that is not"),
    ],
)
def test_faults_name_the_task(tmp_path: Path, tasks: Any, fault: str) -> None:
    _, problems = collect(tmp_path, tasks)
    assert problems[0].message.startswith(fault)


@pytest.mark.parametrize("content", ["[" * 100_000, "[" + "9" * 5_000 + "]", "", '["\\ud800"]', "[1,"])
def test_hostile_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(CorpusError):
        list(LabelStudio().read(tmp_path))


@BRIEF
@given(corpora(documents(texts=st.text(ANY_CHARACTERS, max_size=60), overlapping=True, relations=True)))
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        LabelStudio().write(found, path)
        assert list(LabelStudio().read(path)) == found
        assert isinstance(json.loads(path.read_text(encoding="utf-8")), list)
