from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from wardround.corpora.corpus_format import Problem
from wardround.corpora.fhir import Fhir
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Relation

TEXT = "Rash after lunarol 😀 and fever"
NOTE = Document(
    "n1",
    TEXT,
    (
        Entity("T1", "ADE", ((0, 4), (25, 30)), concepts=("D1",), attributes=(("negated", "false"),), score=0.5),
        Entity("T2", "Drug", ((11, 18),)),
    ),
    (Relation("R1", "causes", "T2", "T1", score=0.25),),
    attributes=(("subject", "Patient/p7"),),
)


def reference(text: str = TEXT, *, charset: str = "utf-8", **changes: Any) -> dict[str, Any]:
    data = base64.b64encode(text.encode(charset)).decode()
    attachment = {"contentType": f"text/plain; charset={charset}", "data": data}
    return {
        "resourceType": "DocumentReference",
        "id": "n1",
        "status": "current",
        "subject": {"reference": "Patient/p7"},
        "content": [{"attachment": attachment}],
        **changes,
    }


def read(path: Path, content: Any) -> list[Document]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return list(Fhir().read(path))


def test_a_note_is_read_from_a_resource_a_bundle_and_ndjson(tmp_path: Path) -> None:
    right = Document("n1", TEXT, attributes=(("subject", "Patient/p7"),))
    assert read(tmp_path / "a.json", reference()) == [right]
    others = {"resource": {"resourceType": "Patient", "id": "p7"}}
    bundle = {"resourceType": "Bundle", "type": "searchset", "entry": [others, {"resource": reference()}]}
    assert read(tmp_path / "b.json", bundle) == [right]
    lines = [reference(), {"resourceType": "Patient"}, reference("Übel", charset="latin-1", id="n2")]
    found = read(tmp_path / "c.ndjson", "\n".join(map(json.dumps, lines)))
    assert [(note.id, note.text) for note in found] == [("n1", TEXT), ("n2", "Übel")]


def test_the_bundle_is_valid_fhir(tmp_path: Path) -> None:
    bundle = pytest.importorskip("fhir.resources.R4B.bundle", reason="fhir.resources is not installed").Bundle
    Fhir().write([NOTE, Document("note/2", "No drug.")], tmp_path / "a.json")
    found = bundle.model_validate_json((tmp_path / "a.json").read_text(encoding="utf-8"))
    kinds = [entry.resource.get_resource_type() for entry in found.entry]
    assert kinds == ["DocumentReference", "Observation", "Observation", "Observation", "DocumentReference"]
    note, rash, drug, causes, second = (entry.resource for entry in found.entry)
    addresses = [entry.fullUrl for entry in found.entry]
    assert len(set(addresses)) == 5
    assert (note.id, second.id) == ("n1", None)  # a slash cannot be part of an id
    assert {one.subject.reference for one in (note, rash, drug, causes)} == {"Patient/p7"}
    assert (rash.code.text, rash.valueString, rash.status) == ("ADE", "Rash fever", "preliminary")
    assert [one.reference for one in rash.derivedFrom] == [addresses[0]]
    assert [one.reference for one in causes.derivedFrom] == [addresses[2], addresses[1]]
    offsets = [[part.valueInteger for part in one.extension] for one in rash.extension[:2]]
    assert offsets == [[0, 4], [25, 30]]
    assert float(rash.extension[2].valueDecimal) == 0.5
    assert [one.text for one in rash.note] == ["concept=D1", "negated=false"]


def test_the_notes_of_a_bundle_that_was_written_are_read(tmp_path: Path) -> None:
    Fhir().write([NOTE], tmp_path / "a.json")
    assert list(Fhir().read(tmp_path / "a.json")) == [Document("n1", TEXT, attributes=NOTE.attributes)]


def test_two_exports_are_equal(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        Fhir().write([NOTE], tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (reference(content=[{"attachment": {"url": "http://host/n1.txt"}}]), "an address is never fetched"),
        (reference(content=[{"attachment": {"contentType": "application/pdf", "data": "AAAA"}}]), "has no attachment"),
        (reference(content=[{"attachment": {"contentType": "text/plain", "data": "!"}}]), "is not base64 of a text"),
        (reference(content=[{"attachment": {"contentType": "text/plain", "data": "/w=="}}]), "is not base64 of a text"),
        (reference(content=None), "has no attachment"),
        ("[", "is no JSON"),
    ],
)
def test_a_resource_without_a_text_is_reported(tmp_path: Path, resource: Any, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(resource if isinstance(resource, str) else json.dumps(resource))
    problems = list[Problem]()
    assert list(Fhir().read(path, problems=problems.append)) == []
    assert [message in problem.message for problem in problems] == [True]


def test_relations_between_concepts_are_refused(tmp_path: Path) -> None:
    relation = Relation("R1", "r", "D1", "D1", Level.CONCEPT)
    note = Document("n1", "x", (Entity("T1", "A", ((0, 1),), ("D1",)),), (relation,))
    with pytest.raises(CorpusError, match="relations between concepts cannot be written"):
        Fhir().write([note], tmp_path / "a.json")
