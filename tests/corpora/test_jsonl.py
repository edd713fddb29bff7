"""JSON lines: each shape by hand, faults by line, and read(write(x)) == x."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import ANY_CHARACTERS, ATTRIBUTES, BRIEF, corpora, documents
from wardround.corpora.corpus_format import Problem, Severity
from wardround.corpora.jsonl import Jsonl, ShapeName
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.segmentation import find_words

TEXT = "Aspirin 😀 burns"
DRUG = Entity("T1", "Drug", (Range(0, 7),))
ADE = Entity("T2", "ADE", (Range(10, 15),))
SHAPES: tuple[ShapeName, ...] = ("wardround", "prodigy", "spacy", "doccano")


def collect(folder: Path, shape: ShapeName, *values: object) -> tuple[list[Document], list[Problem]]:
    path = folder / "x.jsonl"
    path.write_text("\n".join(json.dumps(value) for value in values))
    problems: list[Problem] = []
    return list(Jsonl(shape).read(path, problems=problems.append)), problems


def written(folder: Path, shape: ShapeName, document: Document) -> object:
    Jsonl(shape).write([document], folder / "w.jsonl")
    return json.loads((folder / "w.jsonl").read_text())


def test_our_own_shape_keeps_everything(tmp_path: Path) -> None:
    full = Document(
        "n1",
        TEXT,
        (Entity("T1", "Drug", (Range(0, 3), Range(5, 7)), ("RxNorm:1",), (("sure", "no"),), "hm"), ADE),
        (
            Relation("R1", "causes", "T1", "T2", attributes=(("a", "b"),)),
            Relation("R2", "is", "RxNorm:1", "RxNorm:1", Level.CONCEPT),
        ),
        words=(Range(0, 7), Range(10, 15)),
        sentences=(Range(0, 15),),
        attributes=(("ward", "3"), ("ward", "4")),
    )
    Jsonl().write([full, Document("", "", words=())], tmp_path / "x.jsonl")
    assert list(Jsonl().read(tmp_path / "x.jsonl")) == [full, Document("", "", words=())]


def test_scores_of_predictions_are_written_and_read(tmp_path: Path) -> None:
    entities = (replace(DRUG, score=0.25), replace(ADE, score=1.0), Entity("T3", "Drug", (Range(0, 3),)))
    relations = (Relation("R1", "causes", "T1", "T2", score=0.0), Relation("R2", "causes", "T1", "T2"))
    Jsonl().write([Document("n1", TEXT, entities, relations)], tmp_path / "x.jsonl")
    (found,) = Jsonl().read(tmp_path / "x.jsonl")
    assert [entity.score for entity in found.entities] == [0.25, 1.0, None]
    assert [relation.score for relation in found.relations] == [0.0, None]
    value = json.loads((tmp_path / "x.jsonl").read_text())
    assert ["score" in item for item in (*value["entities"], *value["relations"])] == [True, True, False, True, False]


@pytest.mark.parametrize("score", [1.5, -0.1, True, "0.5", [], float("nan"), float("inf")])
def test_scores_that_are_no_probabilities_are_refused(tmp_path: Path, score: object) -> None:
    entity = {"id": "T1", "type": "Drug", "ranges": [[0, 7]]}
    relation = {"id": "R1", "type": "causes", "head": "T2", "tail": "T2"}
    wrong = {"text": TEXT, "entities": [{**entity, "score": score}, {**entity, "id": "T2"}]}
    (found,), problems = collect(tmp_path, "wardround", {**wrong, "relations": [{**relation, "score": score}]})
    assert [entity.id for entity in found.entities] == ["T2"]
    assert found.relations == ()
    messages = [problem.message for problem in problems]
    assert messages == ["entities 1: 'score' is not a probability", "relations 1: 'score' is not a probability"]


def test_prodigy_with_relations_and_tokens(tmp_path: Path) -> None:
    spans = [{"start": 0, "end": 7, "label": "Drug"}, {"start": 10, "end": 15, "label": "ADE"}]
    value = {
        "text": TEXT,
        "spans": spans,
        "relations": [{"head": 0, "child": 2, "head_span": spans[0], "child_span": spans[1], "label": "causes"}],
        "tokens": [{"text": "Aspirin", "start": 0, "end": 7, "id": 0}],
        "answer": "accept",
    }
    (found,), problems = collect(tmp_path, "prodigy", value)
    assert found == Document("x:1", TEXT, (DRUG, ADE), (Relation("R1", "causes", "T1", "T2"),), words=(Range(0, 7),))
    assert problems == []


def test_prodigy_relations_name_their_spans_by_id_or_position(tmp_path: Path) -> None:
    place = {"start": 0, "end": 7, "label": "Drug"}
    spans = [{**place, "id": "T0"}, {**place, "id": "b"}, {"start": 10, "end": 15, "label": "ADE", "id": "c"}]
    ends = [
        (spans[0], spans[2]),
        (spans[1], {"start": 10, "end": 15, "label": "ADE"}),
        (spans[0], {**place, "label": "Dose"}),
    ]
    relations = [{"head_span": head, "child_span": child, "label": "causes"} for head, child in ends]
    (found,), problems = collect(tmp_path, "prodigy", {"text": TEXT, "spans": spans, "relations": relations})
    assert [(r.id, r.head, r.tail) for r in found.relations] == [("R1", "T0", "c"), ("R2", "b", "c")]
    assert [problem.message for problem in problems] == ["relations 3: 'child_span' is not one of the spans"]


def test_two_relations_with_one_id_are_a_problem(tmp_path: Path) -> None:
    entity = {"id": "T1", "type": "Drug", "ranges": [[0, 7]]}
    relations = [{"id": "R1", "type": kind, "head": "T1", "tail": "T1"} for kind in ("is", "was")]
    value = {"text": TEXT, "entities": [entity], "relations": relations}
    (found,), problems = collect(tmp_path, "wardround", value)
    assert [relation.type for relation in found.relations] == ["is"]
    assert [(problem.line, problem.message) for problem in problems] == [(1, "a second relation has the id R1")]


def test_prodigy_examples_that_were_rejected_are_left_out(tmp_path: Path) -> None:
    found, problems = collect(tmp_path, "prodigy", {"text": "a", "answer": "reject"}, {"text": "b"})
    assert [one.id for one in found] == ["x:2"]
    assert [(p.line, p.severity) for p in problems] == [(1, Severity.WARNING)]


def test_prodigy_spans_name_their_tokens(tmp_path: Path) -> None:
    words = (Range(0, 7), Range(8, 9), Range(10, 15))
    document = Document("n", TEXT, (DRUG, ADE), (Relation("R1", "causes", "T1", "T2"),), words=words)
    value = written(tmp_path, "prodigy", document)
    drug = {"start": 0, "end": 7, "label": "Drug", "id": "T1", "token_start": 0, "token_end": 0}
    ade = {"start": 10, "end": 15, "label": "ADE", "id": "T2", "token_start": 2, "token_end": 2}
    assert value == {
        "text": TEXT,
        "spans": [drug, ade],
        "relations": [{"head": 0, "child": 2, "head_span": drug, "child_span": ade, "label": "causes", "id": "R1"}],
        "tokens": [
            {"text": "Aspirin", "start": 0, "end": 7, "id": 0, "ws": True},
            {"text": "😀", "start": 8, "end": 9, "id": 1, "ws": True},
            {"text": "burns", "start": 10, "end": 15, "id": 2, "ws": False},
        ],
        "meta": {"id": "n"},
    }


def test_spacy_pairs(tmp_path: Path) -> None:
    value = [TEXT, {"entities": [[0, 7, "Drug"], [10, 15, "ADE"]]}]
    found, problems = collect(tmp_path, "spacy", value)
    assert (found, problems) == ([Document("x:1", TEXT, (DRUG, ADE))], [])
    assert written(tmp_path, "spacy", found[0]) == value


def test_doccano_triples_and_objects(tmp_path: Path) -> None:
    triples = {"id": 5, "text": TEXT, "label": [[0, 7, "Drug"]]}
    objects = {
        "text": TEXT,
        "entities": [
            {"id": 11, "label": "Drug", "start_offset": 0, "end_offset": 7},
            {"id": 12, "label": "ADE", "start_offset": 10, "end_offset": 15},
        ],
        "relations": [{"id": 3, "from_id": 11, "to_id": 12, "type": "causes"}],
    }
    found, problems = collect(tmp_path, "doccano", triples, objects)
    assert found[0] == Document("5", TEXT, (DRUG,))
    assert found[1] == Document(
        "x:2", TEXT, (replace(DRUG, id="11"), replace(ADE, id="12")), (Relation("3", "causes", "11", "12"),)
    )
    assert problems == []
    assert written(tmp_path, "doccano", found[1]) == {"id": "x:2", **objects}


def test_doccano_ids_are_numbers(tmp_path: Path) -> None:
    document = Document("n", TEXT, (DRUG, ADE), (Relation("R1", "causes", "T2", "T1"),))
    value = written(tmp_path, "doccano", document)
    assert isinstance(value, dict)
    assert [entity["id"] for entity in value["entities"]] == [1, 2]
    assert value["relations"] == [{"id": 1, "from_id": 2, "to_id": 1, "type": "causes"}]


def test_presidio_array(tmp_path: Path) -> None:
    span = {"entity_type": "Drug", "entity_value": "Aspirin", "start_position": 0, "end_position": 7}
    items = [{"full_text": TEXT, "spans": [span], "template_id": 4}, {"full_text": "a", "spans": [span]}]
    (tmp_path / "x.json").write_text(json.dumps(items))
    problems: list[Problem] = []
    found = list(Jsonl("presidio").read(tmp_path, problems=problems.append))
    assert found == [Document("x:1", TEXT, (DRUG,), attributes=(("template_id", "4"),)), Document("x:2", "a")]
    assert [(p.line, p.message) for p in problems] == [(None, "item 2: T1 ends at 7, the text has 1 characters")]
    with pytest.raises(CorpusError, match=r"^x\.json: item 2: T1 ends at 7, the text has 1 characters$"):
        list(Jsonl("presidio").read(tmp_path))
    with pytest.raises(UsageError, match="can only be read"):
        Jsonl("presidio").write(found, tmp_path / "y.json")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("secret", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('"secret"', "expected an object"),
        ('{"id": "secret"}', "'text' is missing or is not a string"),
        ('{"text": "\\ud800"}', "contains half a surrogate pair"),
        ('{"text": "a", "entities": 3}', "'entities' is missing or is not a list"),
        ('{"text": "a", "entities": [{"id": "T1", "type": "X", "ranges": [[0, 9]]}]}', "T1 ends at 9, the text has 1"),
        ('{"text": "a", "entities": [{"id": "T1", "type": "X", "ranges": [[0, 1.5]]}]}', "entities 1: a range is not"),
        ('{"text": "a", "entities": [{"id": "T1", "type": "X", "ranges": [[0, true]]}]}', "entities 1: a range is not"),
        ('{"text": "a", "entities": [{"id": "T1", "type": "", "ranges": [[0, 1]]}]}', "entities 1: entity 'T1' has no"),
        ('{"text": "a", "entities": [{"type": "X", "ranges": [[0, 1]]}]}', "entities 1: 'id' is missing"),
        ('{"text": "a", "words": [[0, 1], [0, 1]]}', "'words' are not ranges in order"),
        ('{"text": "a", "attributes": {"a": "b"}}', "'attributes' is missing or is not a list"),
        ('{"text": "a", "attributes": [["a"]]}', "'attributes' are not pairs of strings"),
        ('{"text": "a", "relations": [{"id": "R1", "type": "X", "head": "T1", "tail": "T1"}]}', "relation R1 has a h"),
        (
            '{"text": "a", "relations": [{"id": "R1", "type": "X", "head": "", "tail": "", "level": "x"}]}',
            "relations 1: 'l",
        ),
    ],
    ids=range(16),
)
def test_faults_name_the_line_and_do_not_quote_it(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"text": "ok"}}\n{line}\n{{"text": "ok"}}\n')
    with pytest.raises(CorpusError) as caught:
        list(Jsonl().read(path))
    assert str(caught.value).startswith(f"x.jsonl:2: {fault}")
    assert "secret" not in str(caught.value)
    problems: list[Problem] = []
    found = list(Jsonl().read(path, problems=problems.append))
    assert [(one.id, one.text) for one in found if one.text == "ok"] == [("x:1", "ok"), ("x:3", "ok")]
    assert [problem.line for problem in problems] == [2]


def test_a_byte_order_mark_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes('\ufeff{"text": "a"}\r\n\r\n{"text": "b"}'.encode())
    assert [one.id for one in Jsonl().read(tmp_path)] == ["x:1", "x:3"]


@pytest.mark.parametrize("shape", ["prodigy", "spacy", "doccano"])
def test_discontinuous_entities_are_refused_by_lossy_shapes(tmp_path: Path, shape: ShapeName) -> None:
    split = Document("d", TEXT, (Entity("T1", "X", (Range(0, 1), Range(2, 3))),))
    with pytest.raises(CorpusError, match=r"T1 is discontinuous.*choose wardround or brat"):
        Jsonl(shape).write([split], tmp_path / "x.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", ["prodigy", "doccano"])
def test_concept_relations_are_refused_by_lossy_shapes(tmp_path: Path, shape: ShapeName) -> None:
    entity = replace(DRUG, concepts=("c",))
    document = Document("d", TEXT, (entity,), (Relation("R1", "x", "c", "c", Level.CONCEPT),))
    with pytest.raises(CorpusError, match="relates concepts"):
        Jsonl(shape).write([document], tmp_path / "x.jsonl")


def test_spacy_refuses_overlaps_and_every_shape_refuses_half_surrogate_pairs(tmp_path: Path) -> None:
    overlap = Document("d", TEXT, (DRUG, Entity("T2", "X", (Range(6, 9),))))
    with pytest.raises(CorpusError, match="T1 and T2 overlap"):
        Jsonl("spacy").write([overlap], tmp_path / "x.jsonl")
    with pytest.raises(CorpusError, match="half a surrogate pair"):
        Jsonl().write([Document("d", "\ud800")], tmp_path / "x.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(UsageError, match="'brat' is not a shape"):
        Jsonl("brat")  # type: ignore[arg-type]


def ids_as_numbers(document: Document) -> Document:
    """Draw documents that doccano can represent: ids are numbers."""
    return replace(
        document,
        entities=tuple(replace(entity, id=entity.id[1:]) for entity in document.entities),
        relations=tuple(replace(r, id=r.id[1:], head=r.head[1:], tail=r.tail[1:]) for r in document.relations),
    )


def with_words(document: Document) -> Document:
    return replace(document, words=tuple(find_words(document.text)))


TEXTS = st.text(ANY_CHARACTERS, max_size=40)
LOSSY: dict[ShapeName, tuple[st.SearchStrategy[Document], Callable[[Document], Document]]] = {
    "prodigy": (documents(texts=TEXTS, overlapping=True, relations=True), with_words),
    "doccano": (documents(texts=TEXTS, overlapping=True, relations=True), ids_as_numbers),
    "spacy": (documents(texts=TEXTS), lambda document: document),
}


@pytest.mark.parametrize("shape", LOSSY)
@BRIEF
@given(data=st.data())
def test_round_trip_of_the_shapes_of_other_tools(data: st.DataObject, shape: ShapeName) -> None:
    one, fit = LOSSY[shape]
    found = [fit(document) for document in data.draw(corpora(one, prefix="x:"))]
    assert_read_back(shape, found)


@BRIEF
@given(data=st.data())
def test_round_trip_of_our_own_shape(data: st.DataObject) -> None:
    one = documents(texts=TEXTS, discontinuous=True, overlapping=True, relations=True, extras=True)
    found = [
        replace(document, attributes=data.draw(ATTRIBUTES), words=data.draw(st.sampled_from([None, ()])))
        for document in data.draw(corpora(one))
    ]
    assert_read_back("wardround", found)


def assert_read_back(shape: ShapeName, found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        Jsonl(shape).write(found, path)
        problems: list[Problem] = []
        assert list(Jsonl(shape).read(path, problems=problems.append)) == found
        assert problems == []


@pytest.mark.corpus
def test_counts_of_presidio(shared_data: Path) -> None:
    problems: list[Problem] = []
    found = list(Jsonl("presidio").read(shared_data / "presidio_synth", problems=problems.append))
    assert (len(found), sum(len(one.entities) for one in found), problems) == (1_500, 2_863, [])


SHAPES = {
    "wardround": '{"text": "Aspirin", "entities": [{"id": "T1", "type": "Drug", "ranges": [[0, 7]]}]}',
    "prodigy": '{"text": "Aspirin", "spans": [{"start": 0, "end": 7, "label": "Drug"}]}',
    "spacy": '["Aspirin", {"entities": [[0, 7, "Drug"]]}]',
    "doccano": '{"text": "Aspirin", "label": [[0, 7, "Drug"]]}',
}


@pytest.mark.parametrize("written", SHAPES)
@pytest.mark.parametrize("read_as", SHAPES)
def test_another_shape_is_never_read_as_a_note_without_entities(
    tmp_path: Path, written: str, read_as: ShapeName
) -> None:
    (tmp_path / "a.jsonl").write_text(SHAPES[written] + "\n")
    if written == read_as:
        (found,) = Jsonl(read_as).read(tmp_path)
        assert len(found.entities) == 1
    else:
        with pytest.raises(CorpusError):
            list(Jsonl(read_as).read(tmp_path))


def test_the_right_shape_is_named(tmp_path: Path) -> None:
    faults = {
        "prodigy": "has no annotations of the shape wardround, but 'spans' of prodigy; set shape=prodigy",
        "doccano": "has no annotations of the shape wardround, but 'label' of doccano; set shape=doccano",
        "spacy": "has the shape spacy; set shape=spacy",
    }
    for shape, fault in faults.items():
        (tmp_path / "a.jsonl").write_text(SHAPES[shape] + "\n")
        with pytest.raises(CorpusError, match=re.escape(fault)):
            list(Jsonl().read(tmp_path))
    (tmp_path / "a.jsonl").write_text('{"text": "x", "annotations": [{"result": []}]}\n')
    with pytest.raises(CorpusError, match="'annotations'; read it as labelstudio"):
        list(Jsonl().read(tmp_path))
    (tmp_path / "a.jsonl").write_text('{"text": "no annotation at all"}\n')
    assert len(list(Jsonl().read(tmp_path))) == 1
