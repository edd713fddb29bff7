"""FHIR R4: reads notes from DocumentReference resources, writes annotations as a Bundle.

    {"resourceType": "DocumentReference",
     "id": "n1",
     "status": "current",
     "subject": {"reference": "Patient/p7"},
     "content": [{"attachment": {"contentType": "text/plain; charset=utf-8", "data": "<base64>"}}]}

A file is one resource, a Bundle of resources, or NDJSON with one resource on each line. Only text inside a resource is
read: an address (`attachment.url`) is never fetched.

A Bundle of the type `collection` is written. Each note is a DocumentReference. Each mention is an Observation that is
derived from the note: `code` is the type, `valueString` the text; offsets and score are extensions. Its status is
`preliminary`, because no person has confirmed it. A relation is an Observation derived from those of its ends.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from wardround.corpora.corpus_files import BYTE_ORDER_MARK, files_below, id_of, open_for_writing, read_each, read_text
from wardround.corpora.corpus_format import Clue, Content, CorpusFormat, ProblemSink, Reporter, fail_on_error
from wardround.errors import CorpusError
from wardround.parsing import MalformedDataError, parse_json
from wardround.text.document import Document, Entity, Level, Relation

__all__ = ["Fhir"]

_SYSTEM = "urn:wardround:types"  # of codes: the types of a model are not those of a terminology
_OFFSETS, _SCORE, _ROLE = "urn:wardround:offsets", "urn:wardround:score", "urn:wardround:role"
_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
_CHARSET = re.compile(r";\s*charset=\"?([A-Za-z0-9_-]+)\"?", re.IGNORECASE)
_SUBJECT = "subject"  # attribute of a document: the reference to its patient
_BLANK = re.compile(r"[ \r\n\t]+")


@dataclass(frozen=True)
class Fhir(CorpusFormat):
    """Reader of DocumentReference resources, and writer of a Bundle of annotations."""

    name = "fhir"
    description = "FHIR R4 DocumentReference: `.json`, `.ndjson`, alone or in a Bundle"
    ending = ".json"
    holds = frozenset[Content]({"entities", "discontinuous", "relations", "concepts", "attributes"})
    clues = (Clue((".json", ".ndjson"), "has FHIR resources", content=r'"resourceType"\s*:'),)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the note of every DocumentReference in a file, or in each `.json` or `.ndjson` file below a folder."""
        files = files_below(path, ".json", ".ndjson")
        return read_each(files, lambda file: _read_file(file, id_of(file, path), problems), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one Bundle; raise `CorpusError` for relations between concepts."""
        with open_for_writing(path) as stream:
            stream.write('{"resourceType": "Bundle", "type": "collection", "entry": [')
            separator = "\n"
            for document in documents:
                if any(relation.level is Level.CONCEPT for relation in document.relations):
                    raise CorpusError(
                        f"document {document.id!r}: relations between concepts cannot be written; remove them",
                        path=path,
                    )
                for resource in _resources(document):
                    entry = {"fullUrl": f"urn:uuid:{resource.pop('uuid')}", "resource": resource}
                    stream.write(separator + json.dumps(entry, ensure_ascii=False))
                    separator = ",\n"
            stream.write("\n]}\n")


def _read_file(file: Path, stem: str, problems: ProblemSink) -> Iterator[Document]:
    text = read_text(file).removeprefix(BYTE_ORDER_MARK)
    by_line = ".ndjson" in file.name
    for line, content in enumerate(text.splitlines() if by_line else [text], start=1):
        report = Reporter(file, problems, line if by_line else None)
        if not content.strip():
            continue
        try:
            value = parse_json(content)
        except MalformedDataError as error:
            report.error(str(error))
            continue
        for number, resource in enumerate(_document_references(value), start=1):
            where = Reporter(file, problems, report.line, f"DocumentReference {number}: ")
            document = _read_resource(resource, f"{stem}:{line if by_line else number}", where)
            if document is not None:
                yield document


def _document_references(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of a Bundle, or the one resource."""
    if not isinstance(value, dict):
        return
    entries = value.get("entry") if value.get("resourceType") == "Bundle" else [{"resource": value}]
    for entry in entries if isinstance(entries, list) else []:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and resource.get("resourceType") == "DocumentReference":
            yield resource


def _read_resource(resource: Mapping[str, Any], unnamed: str, report: Reporter) -> Document | None:
    name = resource.get("id")
    subject = resource.get("subject")
    patient = subject.get("reference") if isinstance(subject, dict) else None
    attributes = ((_SUBJECT, patient),) if isinstance(patient, str) and patient else ()
    contents = resource.get("content")
    for content in contents if isinstance(contents, list) else []:
        attachment = content.get("attachment") if isinstance(content, dict) else None
        kind = attachment.get("contentType", "text/plain") if isinstance(attachment, dict) else ""
        data = attachment.get("data") if isinstance(attachment, dict) else None
        if not isinstance(kind, str) or not kind.lower().startswith("text/plain") or not isinstance(data, str):
            continue
        charset = _CHARSET.search(kind)
        try:
            decoded = base64.b64decode(_BLANK.sub("", data), validate=True)
            text = decoded.decode(charset[1] if charset else "utf-8")
        except (binascii.Error, UnicodeDecodeError, LookupError):
            report.error("the data is not base64 of a text in its charset")
            return None
        return Document(name if isinstance(name, str) and name else unnamed, text, attributes=attributes)
    report.error("has no attachment of the type text/plain with data; an address is never fetched")
    return None


def _resources(document: Document) -> Iterator[dict[str, Any]]:
    """Yield the note, its mentions and its relations; `uuid` is for the address of the entry."""
    attributes = dict(document.attributes)
    subject = {"subject": {"reference": attributes[_SUBJECT]}} if _SUBJECT in attributes else {}
    data = base64.b64encode(document.text.encode()).decode("ascii")
    yield {
        "uuid": _uuid(document),
        "resourceType": "DocumentReference",
        **({"id": document.id} if _ID.fullmatch(document.id) else {}),
        "status": "current",
        **subject,
        "content": [{"attachment": {"contentType": "text/plain; charset=utf-8", "data": data}}],
    }
    observation = {"resourceType": "Observation", "status": "preliminary", **subject}
    for entity in document.entities:
        yield {
            "uuid": _uuid(document, entity.id),
            **observation,
            "extension": [*(_offsets(start, end) for start, end in entity.ranges), *_scored(entity)],
            "code": _code(entity.type),
            "valueString": entity.text_in(document.text),
            "derivedFrom": [{"reference": f"urn:uuid:{_uuid(document)}"}],
            **({"note": _notes(entity)} if entity.concepts or entity.attributes else {}),
        }
    for relation in document.relations:
        ends = {"head": relation.head, "tail": relation.tail}
        yield {
            "uuid": _uuid(document, relation.id),
            **observation,
            **({"extension": found} if (found := _scored(relation)) else {}),
            "code": _code(relation.type),
            "valueBoolean": True,
            "derivedFrom": [
                {
                    "extension": [{"url": _ROLE, "valueCode": role}],
                    "reference": f"urn:uuid:{_uuid(document, end)}",
                }
                for role, end in ends.items()
            ],
        }


def _uuid(document: Document, part: str = "") -> str:
    """Return the same name for the same part of the same document, so that two exports are equal."""
    return str(uuid5(NAMESPACE_URL, f"urn:wardround:{len(document.id)}:{document.id}:{part}"))


def _offsets(start: int, end: int) -> dict[str, Any]:
    numbers = [{"url": "start", "valueInteger": start}, {"url": "end", "valueInteger": end}]
    return {"url": _OFFSETS, "extension": numbers}


def _scored(found: Entity | Relation) -> list[dict[str, Any]]:
    return [] if found.score is None else [{"url": _SCORE, "valueDecimal": round(found.score, 6)}]


def _code(kind: str) -> dict[str, Any]:
    return {"coding": [{"system": _SYSTEM, "code": kind}], "text": kind}


def _notes(entity: Entity) -> list[dict[str, str]]:
    """Return concepts and attributes as notes of the Observation."""
    concepts = [("concept", concept) for concept in entity.concepts]
    return [{"text": f"{name}={value}"} for name, value in (*concepts, *entity.attributes)]
