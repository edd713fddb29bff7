"""PubAnnotation JSON: a text with denotations, relations and attributes; a file has one of them, or a list.

    {"text": "Rash after lunarol", "sourcedb": "ward", "sourceid": "n1",
     "denotations": [{"id": "T1", "span": {"begin": 11, "end": 18}, "obj": "Drug"},
                     {"id": "T2", "span": {"begin": 0, "end": 4}, "obj": "ADE"}],
     "relations": [{"id": "R1", "subj": "T1", "pred": "causes", "obj": "T2"}],
     "attributes": [{"id": "A1", "subj": "T1", "pred": "score", "obj": 0.93}]}

A discontinuous mention has a list of spans. The score of a prediction is the attribute `score`, and a concept the
attribute `concept`. The id of a document is its `sourceid`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wardround.corpora.corpus_files import BYTE_ORDER_MARK, files_below, id_of, open_for_writing, read_each, read_text
from wardround.corpora.corpus_format import Clue, Content, CorpusFormat, Draft, ProblemSink, Reporter, fail_on_error
from wardround.errors import CorpusError, TextError
from wardround.parsing import MalformedDataError, is_integer, parse_json
from wardround.text.document import Document, Level, Relation

__all__ = ["Pubannotation"]

_SCORE, _CONCEPT = "score", "concept"


@dataclass(frozen=True)
class Pubannotation(CorpusFormat):
    """Reader and writer of PubAnnotation JSON."""

    name = "pubannotation"
    description = "PubAnnotation `.json`, one document or a list of them"
    ending = ".json"
    clues = (Clue((".json",), "has denotations", content=r'"denotations"\s*:\s*\['),)
    holds = frozenset[Content]({"entities", "discontinuous", "relations", "concepts", "attributes"})

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of each `.json` file below a folder."""
        files = files_below(path, ".json")
        return read_each(files, lambda file: _read_file(file, id_of(file, path), problems), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file with a list; raise `CorpusError` for relations between concepts."""
        with open_for_writing(path) as stream:
            stream.write("[")
            for number, document in enumerate(documents):
                try:
                    stream.write((",\n" if number else "\n") + json.dumps(_as_values(document), ensure_ascii=False))
                except CorpusError as error:
                    raise CorpusError(f"document {document.id!r}: {error.reason}", path=path) from None
            stream.write("\n]\n")


def _read_file(file: Path, stem: str, problems: ProblemSink) -> Iterator[Document]:
    try:
        value = parse_json(read_text(file).removeprefix(BYTE_ORDER_MARK))
    except MalformedDataError as error:
        Reporter(file, problems).error(str(error))
        return
    several = isinstance(value, list)
    for number, item in enumerate(value if several else [value], start=1):
        report = Reporter(file, problems, item=f"item {number}: " if several else "")
        if not isinstance(item, dict) or not isinstance(item.get("text"), str):
            report.error("is not an object with a text")
            continue
        name = item.get("sourceid")
        unnamed = f"{stem}:{number}" if several else stem
        document_id = str(name) if isinstance(name, str | int) and str(name) else unnamed
        try:
            yield _document(item, document_id, report)
        except TextError as error:
            report.error(str(error))


def _document(item: Mapping[str, Any], document_id: str, report: Reporter) -> Document:
    draft = Draft(item["text"])
    for one in _objects(item, "denotations", report):
        spans = one["span"] if isinstance(one.get("span"), list) else [one.get("span")]
        found = [(span.get("begin"), span.get("end")) for span in spans if isinstance(span, dict)]
        ranges = [(begin, end) for begin, end in found if is_integer(begin) and is_integer(end)]
        if not ranges or len(ranges) < len(spans):
            report.error("a denotation has no span with begin and end")
        elif not isinstance(one.get("obj"), str) or not isinstance(one.get("id", ""), str):
            report.error("a denotation needs an obj, and an id that is text")
        else:
            draft.add_entity(
                report, entity_id=one.get("id", f"T{len(draft.entities) + 1}"), kind=one["obj"], ranges=ranges
            )
    for one in _objects(item, "relations", report):
        named = [one.get(name) for name in ("id", "pred", "subj", "obj")]
        if all(isinstance(name, str) and name for name in named):
            relation_id, kind, head, tail = map(str, named)
            draft.add_relation(Relation(relation_id, kind, head, tail), report)
        else:
            report.error("a relation needs id, pred, subj and obj")
    for one in _objects(item, "attributes", report):
        _add_attribute(draft, one, report)
    return draft.document(document_id)


def _add_attribute(draft: Draft, one: Mapping[str, Any], report: Reporter) -> None:
    subject, name, value = (one.get(key) for key in ("subj", "pred", "obj"))
    if not isinstance(subject, str) or not isinstance(name, str) or not isinstance(value, str | int | float):
        report.error("an attribute needs subj, pred and obj")
    elif subject in draft.relations and name == _SCORE and isinstance(value, int | float) and 0 <= value <= 1:
        draft.relations[subject] = replace(draft.relations[subject], score=float(value))
    elif subject not in draft.entities:
        report.error("an attribute is about something that is not a mention here; it is left out")
    elif name == _SCORE and isinstance(value, int | float) and 0 <= value <= 1:
        draft.replace_entity(replace(draft.entities[subject], score=float(value)))
    elif name == _CONCEPT:
        entity = draft.entities[subject]
        draft.replace_entity(replace(entity, concepts=(*entity.concepts, str(value))))
    else:
        entity = draft.entities[subject]
        text = str(value).lower() if isinstance(value, bool) else str(value)
        draft.replace_entity(replace(entity, attributes=(*entity.attributes, (name, text))))


def _objects(item: Mapping[str, Any], name: str, report: Reporter) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list, and report anything else in it."""
    listed = item.get(name, [])
    for one in listed if isinstance(listed, list) else [None]:
        if isinstance(one, dict):
            yield one
        else:
            report.error(f"{name} is not a list of objects")


def _as_values(document: Document) -> dict[str, Any]:
    if any(relation.level is Level.CONCEPT for relation in document.relations):
        raise CorpusError("relations between concepts cannot be written; remove them")
    attributes = [
        (entity.id, name, value)
        for entity in document.entities
        for name, value in (
            *(() if entity.score is None else ((_SCORE, entity.score),)),
            *((_CONCEPT, concept) for concept in entity.concepts),
            *entity.attributes,
        )
    ]
    attributes += [(one.id, _SCORE, one.score) for one in document.relations if one.score is not None]
    return {
        "sourcedb": "wardround",
        "sourceid": document.id,
        "text": document.text,
        "denotations": [
            {"id": entity.id, "span": _spans(entity.ranges), "obj": entity.type} for entity in document.entities
        ],
        "relations": [
            {"id": one.id, "subj": one.head, "pred": one.type, "obj": one.tail} for one in document.relations
        ],
        "attributes": [
            {"id": f"A{number}", "subj": subject, "pred": name, "obj": value}
            for number, (subject, name, value) in enumerate(attributes, start=1)
        ],
    }


def _spans(ranges: Iterable[tuple[int, int]]) -> Any:
    spans = [{"begin": start, "end": end} for start, end in ranges]
    return spans if len(spans) > 1 else spans[0]
