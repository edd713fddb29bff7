from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.studies.distilled_studies import distilled, related, server_of, write_notes
from tests.studies.tiny_studies import of_algorithm

from wardround.corpora.jsonl import Jsonl
from wardround.errors import CorpusError, StudyError, TrainingError, WardroundError
from wardround.studies.assemble import common_task
from wardround.studies.study_file import parse_study, to_toml
from wardround.studies.study_notes import check_public, public_digest, public_documents, public_set, with_digest
from wardround.text.document import Document, Entity, Range, Relation

TWO_TYPES = {"ADE": [["Drug", "Effect"]], "TREATS": [["Drug", "Disease"]]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notes of three sites and the public set; a test must leave them as they are."""
    folder = tmp_path_factory.mktemp("notes")
    write_notes(folder)
    return folder


def written(path: Path, documents: tuple[Document, ...]) -> dict[str, str]:
    """The section [public] of documents that are written here."""
    Jsonl().write(documents, path)
    return {"data": str(path)}


# Where it is.


def test_the_set_is_read_from_the_path_in_the_study(data: Path, tmp_path: Path) -> None:
    documents = related(5, seed=3)
    assert public_documents(distilled(data, public=written(tmp_path / "p.jsonl", documents))) == documents


def test_a_study_without_one_has_none(data: Path) -> None:
    study = distilled(data, public=None, algorithm={"name": "fedavg"})
    check_public(study)
    assert public_documents(study) == ()
    assert with_digest(study) == study


def test_it_may_be_a_built_in_hospital(data: Path) -> None:
    built_in = {"data": None, "format": None, "built_in": "riverside-0002"}
    documents = public_documents(distilled(data, public=built_in))
    assert documents
    assert public_documents(distilled(data, public=built_in)) == documents
    assert public_documents(distilled(data, public=built_in, study={"seed": 8})) != documents


def test_it_may_be_a_folder_in_another_format(data: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("She took aspirin and then had rash.")
    (tmp_path / "a.ann").write_text("T1\tDrug 9 16\taspirin\nT2\tEffect 30 34\trash\nR1\tADE Arg1:T1 Arg2:T2\n")
    (found,) = public_documents(distilled(data, public={"data": str(tmp_path), "format": "brat"}))
    assert [(relation.type, relation.head, relation.tail) for relation in found.relations] == [("ADE", "T1", "T2")]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"data": "/secret/ward-9/notes.jsonl"}, r"^\[public\] data: notes.jsonl does not exist$"),
        (
            {"format": "jsnl"},
            r"^\[public\] format: 'jsnl' is not a format – did you mean 'jsonl'\?; there are ",
        ),
        ({"options": {"shpae": "spacy"}}, r"^\[public\] format: .*'shpae'.* – did you mean 'shape'\?"),
        (
            {"data": None, "format": None, "built_in": "harbor"},
            r"^\[public\] built_in: no built-in hospital is called 'harbor' – did you mean 'harbour'\?",
        ),
        (
            {"data": None, "format": None, "built_in": "harbour-0001"},
            r"^\[public\] built_in: no built-in hospital is called 'harbour-0001' – did you mean 'hillside-0001'\?",
        ),
    ],
    ids=["path", "format", "option", "hospital", "number"],
)
def test_a_missing_set_is_refused(section: dict[str, object], said: str, data: Path) -> None:
    with pytest.raises(StudyError, match=said) as refused:
        public_documents(distilled(data, public=section))
    assert "/" not in str(refused.value) and "secret" not in str(refused.value)


def test_an_empty_set_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"^\[public\] holds no document$"):
        public_documents(distilled(data, public=written(tmp_path / "empty.jsonl", ())))


def test_a_fault_in_it_has_its_file_and_line_and_no_word_of_a_note(data: Path, tmp_path: Path) -> None:
    section = written(tmp_path / "p.jsonl", related(3))
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    (tmp_path / "p.jsonl").write_text("\n".join([lines[0], lines[1][:-20], lines[2]]))
    with pytest.raises(CorpusError, match=r"^p.jsonl:2: is not JSON$"):
        public_documents(distilled(data, public=section))


# Whether it is the one that was agreed on.


def test_a_study_that_says_what_its_set_holds(data: Path, tmp_path: Path) -> None:
    study = with_digest(distilled(data))
    assert study.public.sha256 == public_digest(public_documents(study))
    assert len(study.public.sha256) == 64
    assert parse_study(to_toml(study)) == study
    elsewhere = written(tmp_path / "other-name.jsonl", public_documents(study))
    moved = distilled(data, public={**elsewhere, "sha256": study.public.sha256})
    assert public_documents(moved) == public_documents(study)


def shorter(documents: list[Document]) -> list[Document]:
    return documents[:-1]


def turned(documents: list[Document]) -> list[Document]:
    return documents[::-1]


def relabelled(documents: list[Document]) -> list[Document]:
    return [replace(documents[0], relations=()), *documents[1:]]


def reworded(documents: list[Document]) -> list[Document]:
    return [replace(documents[0], text=documents[0].text.replace("She", "Sue")), *documents[1:]]


def retyped(documents: list[Document]) -> list[Document]:
    first, *others = documents[0].entities
    return [replace(documents[0], entities=(replace(first, type="Dose"), *others)), *documents[1:]]


def moved(documents: list[Document]) -> list[Document]:
    *others, last = documents[0].entities
    shorter_ = replace(last, ranges=(Range(last.start, last.end - 1),))
    return [replace(documents[0], entities=(*others, shorter_)), *documents[1:]]


@pytest.mark.parametrize("change", [shorter, turned, relabelled, reworded, retyped, moved])
def test_another_set_is_refused(change: Callable[[list[Document]], list[Document]], data: Path, tmp_path: Path) -> None:
    agreed = with_digest(distilled(data)).public.sha256
    documents = change(list(public_documents(distilled(data))))
    section = {**written(tmp_path / "p.jsonl", tuple(documents)), "sha256": agreed}
    with pytest.raises(StudyError, match=r"^\[public\] holds other documents than the study was made with \(sha256"):
        public_documents(distilled(data, public=section))


def test_a_set_that_changed_is_read_again(data: Path, tmp_path: Path) -> None:
    """Also in a process that has read it before."""
    study = distilled(data, public=written(tmp_path / "p.jsonl", related(4)))
    assert len(public_documents(study)) == 4
    written(tmp_path / "p.jsonl", related(6))
    assert len(public_documents(study)) == 6
    written(tmp_path / "p.jsonl", related(6, seed=1))
    os.utime(tmp_path / "p.jsonl", ns=(1, 1))  # as large as before, it may be
    assert public_documents(study) == related(6, seed=1)


# As examples.


def test_every_pair_of_it_is_an_example(data: Path, tmp_path: Path) -> None:
    """Also where fewer negatives are trained on; two drugs and one effect are two pairs."""
    first, *others = related(4, related=False)
    text = first.text + " Aspirin too."
    start = text.index("Aspirin too")
    more = replace(first, text=text, sentences=(Range(0, len(text)),))
    more = replace(more, entities=(*first.entities, Entity("T3", "Drug", (Range(start, start + 7),))))
    study = distilled(data, task={"negatives": 0.0}, public=written(tmp_path / "p.jsonl", (more, *others)))
    server, task = server_of(study)
    found = public_set(study, task)
    assert found.labelled
    assert [(example.instance.head, example.label) for example in found.examples] == [
        ("T1", "none"),
        ("T3", "none"),
        *[("T1", "none")] * 3,
    ]
    assert {head: rows.shape for head, rows in server.expected_arrays().items()} == {"relations": (5, 2)}


def test_a_set_that_is_not_labelled_says_so(data: Path) -> None:
    study = distilled(data, public={"labelled": False})
    _, task = server_of(study)
    assert not public_set(study, task).labelled


def test_a_set_without_a_pair(data: Path, tmp_path: Path) -> None:
    bare = tuple(replace(document, entities=(), relations=()) for document in related(3))
    with pytest.raises(TrainingError, match=r"^the public documents contain no pair of entities; widen the window or"):
        server_of(distilled(data, public=written(tmp_path / "p.jsonl", bare)))


def test_relations_of_another_level_are_refused(data: Path) -> None:
    with pytest.raises(
        WardroundError, match="relation 'R1' is between mentions, those of the relation set are between "
    ):
        server_of(distilled(data, task={"level": "concept"}))


def test_the_rows_of_an_unlabelled_set_do_not_depend_on_its_labels(data: Path, tmp_path: Path) -> None:
    """Not even where it relates what the study's types forbid."""
    first, *others = related(4)
    forbidden = replace(first, relations=(Relation("R1", "TREATS", "T1", "T2"),))
    rows = []
    for name, documents in (("as it is", (first, *others)), ("forbidden", (forbidden, *others))):
        section = {**written(tmp_path / f"{name}.jsonl", documents), "labelled": False}
        server, _ = server_of(distilled(data, task={"relations": TWO_TYPES}, public=section))
        rows.append({head: array.shape for head, array in server.expected_arrays().items()})
    assert rows[0] == rows[1] == {"relations": (4, 3)}


def test_nothing_of_its_text_is_in_a_repr(data: Path) -> None:
    study = distilled(data)
    _, task = server_of(study)
    said = repr(public_set(study, task)) + repr(public_documents(study)) + repr(study)
    assert not [word for word in ("aspirin", "rash", "nausea", "She") if word in said]


def test_a_tag_set_names_the_types_of_the_public_set_too() -> None:
    study = of_algorithm(
        "feded",
        task={"kind": "deidentify", "tag_set": "hipaa"},
        sites={name: {"types": None, "scheme": ""} for name in ("harbour", "hillside")},
        public={"built_in": "southmere"},
    )
    found = {tag for example in public_set(study, common_task(study)).examples for tag in example.tags}
    assert {"B-NAMES", "B-DATES", "B-PLACES"} <= found
