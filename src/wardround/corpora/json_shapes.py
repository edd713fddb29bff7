"""The JSON shapes of a document: one reader each and, except for presidio, one writer.

A reader takes the parsed value, the id to use if the value has none, and the place to report from. A faulty span or
relation is reported and left out; a value that is not a document raises `ShapeError`. Unknown keys are ignored, because
annotation tools add many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from wardround.corpora.corpus_format import EVERYTHING, Content, Draft, Reporter
from wardround.errors import CorpusError, TextError
from wardround.text.document import Attributes, Document, Entity, Level, Range, Relation

__all__ = ["HOLDS", "READERS", "WRITERS", "ShapeError", "refuse_other_shape"]

Json = dict[str, Any]
Value = TypeVar("Value", str, int, list[Any], dict[str, Any])
Part = TypeVar("Part")

_KINDS: dict[type, str] = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}


class ShapeError(Exception):
    """The content is not JSON or does not have the expected shape. The message never quotes it."""


# Which keys hold the annotations of which shape, so that a file of another shape is not read as notes without any.
_ANNOTATION_KEYS: dict[str, tuple[str, ...]] = {
    "wardround": ("entities",),
    "prodigy": ("spans",),
    "doccano": ("label", "labels", "entities"),
    "presidio": ("spans", "full_text"),
}
_OTHER_FORMATS = {"annotations": "labelstudio", "ner_tags": "datasets"}


def refuse_other_shape(value: object, shape: str) -> None:
    """Raise `ShapeError` with the name of the right shape if a value has annotations, but only those of another one."""
    if isinstance(value, list) and shape != "spacy":
        if len(value) == 2 and isinstance(value[0], str):
            raise ShapeError("has the shape spacy; set shape=spacy")
        return
    if not isinstance(value, dict) or any(value.get(key) is not None for key in _ANNOTATION_KEYS.get(shape, ())):
        return
    for other, keys in _ANNOTATION_KEYS.items():
        seen = next((key for key in keys if value.get(key)), None)
        if seen is not None:
            named = "presidio" if "full_text" in value else other
            raise ShapeError(f"has no annotations of the shape {shape}, but {seen!r} of {named}; set shape={named}")
    for key, form in _OTHER_FORMATS.items():
        if value.get(key):
            raise ShapeError(f"has no annotations of the shape {shape}, but {key!r}; read it as {form}")


# Our own shape.


def read_own(value: object, name: str, report: Reporter) -> Document:
    """Read a document in our own shape."""
    draft = Draft(_get(value, "text", str))
    for entity in _each(value, "entities", _own_entity, report=report):
        draft.keep_entity(entity, report)
    for relation in _each(value, "relations", _own_relation, report=report):
        draft.add_relation(relation, report)
    return draft.document(
        _name(value, name),
        words=_words(value, "words", draft.text, report=report),
        sentences=_words(value, "sentences", draft.text, report=report),
        attributes=_attributes(value),
    )


def _own_entity(item: object, number: int) -> Entity:
    concepts = _get(item, "concepts", list, default=[])
    if not all(isinstance(concept, str) for concept in concepts):
        raise ShapeError("a concept is not a string")
    return Entity(
        _get(item, "id", str),
        _get(item, "type", str),
        _ranges(_get(item, "ranges", list)),
        tuple(concepts),
        _attributes(item),
        _get(item, "note", str, default=""),
        _score(item),
    )


def _own_relation(item: object, number: int) -> Relation:
    level = _get(item, "level", str, default=Level.MENTION.value)
    if level not in {known.value for known in Level}:
        raise ShapeError("'level' is neither 'mention' nor 'concept'")
    ends = _get(item, "head", str), _get(item, "tail", str)
    return Relation(
        _get(item, "id", str), _get(item, "type", str), *ends, Level(level), _attributes(item), _score(item)
    )


def write_own(document: Document) -> Json:
    """Return everything in the document; empty parts of entities and relations are left out."""
    return {
        "id": document.id,
        "text": document.text,
        "entities": [
            _fields(e, "id", "type", "ranges", "concepts", "attributes", "note", "score") for e in document.entities
        ],
        "relations": [
            {**_fields(r, "id", "type", "head", "tail", "attributes", "score"), "level": r.level.value}
            for r in document.relations
        ],
        **_fields(document, "attributes"),
        "words": document.words,
        "sentences": document.sentences,
    }


def _fields(thing: Document | Entity | Relation, *names: str) -> Json:
    """Return the named fields that are not empty, and the id."""
    return {name: found for name in names if (found := getattr(thing, name)) not in ((), "", None) or name == "id"}


# Prodigy: spans by character offsets; tokens, if there are any, are the words; a relation repeats its two spans.


def read_prodigy(value: object, name: str, report: Reporter) -> Document | None:
    """Read a task of Prodigy, or return None if its annotator did not accept it."""
    if _get(value, "answer", str, default="accept") != "accept":
        report.warning("was not accepted by its annotator; not read")
        return None
    draft = Draft(_get(value, "text", str))
    for entity in _each(value, "spans", _PRODIGY.entity, report=report):
        draft.keep_entity(entity, report)
    spans = _SpanIndex.of(draft)

    def relation_of(item: object, number: int) -> Relation:
        ends = spans.entity_id(item, "head_span"), spans.entity_id(item, "child_span")
        return Relation(_get(item, "id", str, default=f"R{number}"), _get(item, "label", str), *ends)

    for relation in _each(value, "relations", relation_of, report=report):
        draft.add_relation(relation, report)
    words = _words(value, "tokens", draft.text, report=report)
    return draft.document(_name(_get(value, "meta", dict, default={}), name), words=words)


class _SpanIndex(NamedTuple):
    """The entities that the repeated spans of a relation can refer to."""

    ids: frozenset[str]
    by_place: dict[tuple[int, int, str], str]

    @classmethod
    def of(cls, draft: Draft) -> _SpanIndex:
        places = {(e.start, e.end, e.type): e.id for e in draft.entities.values()}
        return cls(frozenset(draft.entities), places)

    def entity_id(self, relation: object, key: str) -> str:
        """Return the id of the entity that the span `relation[key]` names by its id, or else by its position."""
        span = _get(relation, key, dict)
        span_id, entity = _name(span, ""), _PRODIGY.entity(span, 0)
        if span_id in self.ids:
            return span_id
        place = entity.start, entity.end, entity.type
        if place not in self.by_place:
            raise ShapeError(f"{key!r} is not one of the spans")
        return self.by_place[place]


def write_prodigy(document: Document) -> Json:
    """Return the document as a task of Prodigy."""
    _refuse_discontinuous(document, "prodigy")
    _refuse_concept_relations(document, "prodigy")
    words = document.words or ()
    first = {word.start: number for number, word in enumerate(words)}
    last = {word.end: number for number, word in enumerate(words)}
    spans: dict[str, Json] = {}
    for entity in document.entities:
        span: Json = {"start": entity.start, "end": entity.end, "label": entity.type, "id": entity.id}
        if entity.start in first:  # a token begins there
            span["token_start"] = first[entity.start]
        if entity.end in last:
            span["token_end"] = last[entity.end]
        spans[entity.id] = span
    relations = [
        {
            "head": spans[relation.head].get("token_end"),
            "child": spans[relation.tail].get("token_end"),
            "head_span": spans[relation.head],
            "child_span": spans[relation.tail],
            "label": relation.type,
            "id": relation.id,
        }
        for relation in document.relations
    ]
    value: Json = {"text": document.text, "spans": list(spans.values()), "relations": relations}
    if document.words is not None:
        text = document.text
        value["tokens"] = [
            {"text": text[start:end], "start": start, "end": end, "id": number, "ws": text[end : end + 1] == " "}
            for number, (start, end) in enumerate(words)
        ]
    return {**value, "meta": {"id": document.id}}


# spaCy's training pairs.


def read_spacy(value: object, name: str, report: Reporter) -> Document:
    """Read a pair `[text, {"entities": [[start, end, label], ...]}]`."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        raise ShapeError("does not have the form [text, {'entities': [...]}]")
    draft = Draft(value[0])
    for entity in _each(value[1], "entities", _triple, report=report):
        draft.keep_entity(entity, report)
    return draft.document(name)


def write_spacy(document: Document) -> list[Any]:
    """Return a pair of the text and its entities; raise `CorpusError` if two entities overlap."""
    _refuse_discontinuous(document, "spacy")
    ordered = sorted(document.entities, key=lambda entity: entity.envelope)
    for left, right in pairwise(ordered):
        if left.overlaps(right):
            raise CorpusError(f"{left.id} and {right.id} overlap, which spaCy does not allow; choose another shape")
    return [document.text, {"entities": [[e.start, e.end, e.type] for e in document.entities]}]


# doccano: triples, or objects with numbers as ids if there are relations.


def read_doccano(value: object, name: str, report: Reporter) -> Document:
    """Read an example of doccano, with triples or with objects."""
    draft = Draft(_get(value, "text", str))
    for key in ("label", "labels"):
        for entity in _each(value, key, _triple, report=report):
            draft.keep_entity(entity, report)
    for entity in _each(value, "entities", _DOCCANO.entity, report=report):
        draft.keep_entity(entity, report)

    def relation_of(item: object, number: int) -> Relation:
        ends = str(_get(item, "from_id", int)), str(_get(item, "to_id", int))
        return Relation(_name(item, f"R{number}"), _get(item, "type", str), *ends)

    for relation in _each(value, "relations", relation_of, report=report):
        draft.add_relation(relation, report)
    return draft.document(_name(value, name))


def write_doccano(document: Document) -> Json:
    """Return the document as an example of doccano with objects."""
    _refuse_discontinuous(document, "doccano")
    _refuse_concept_relations(document, "doccano")
    numbers = _numbers([entity.id for entity in document.entities])
    relation_numbers = _numbers([relation.id for relation in document.relations])
    return {
        "id": int(document.id) if _is_number(document.id) else document.id,
        "text": document.text,
        "entities": [
            {"id": numbers[e.id], "label": e.type, "start_offset": e.start, "end_offset": e.end}
            for e in document.entities
        ],
        "relations": [
            {"id": relation_numbers[r.id], "from_id": numbers[r.head], "to_id": numbers[r.tail], "type": r.type}
            for r in document.relations
        ],
    }


def _numbers(ids: list[str]) -> dict[str, int]:
    """Return the ids as numbers if all of them are numbers; otherwise count from 1."""
    if all(map(_is_number, ids)):
        return {name: int(name) for name in ids}
    return {name: number for number, name in enumerate(ids, start=1)}


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 16 and str(int(name)) == name


# presidio-research: spans only; the template of a text is kept, so that texts can be split by template.


def read_presidio(value: object, name: str, report: Reporter) -> Document:
    """Read a sample of presidio-research."""
    draft = Draft(_get(value, "full_text", str))
    for entity in _each(value, "spans", _PRESIDIO.entity, report=report):
        draft.keep_entity(entity, report)
    template = _get(value, "template_id", int, default=-1)
    return draft.document(name, attributes=() if template < 0 else (("template_id", str(template)),))


# Shared by the shapes.


class _SpanKeys(NamedTuple):
    """The keys that a tool uses for the parts of a span."""

    start: str
    end: str
    label: str

    def entity(self, item: object, number: int) -> Entity:
        """Return the span as an entity; its id is `T<number>` if it has none."""
        ends = _get(item, self.start, int), _get(item, self.end, int)
        return Entity(_name(item, f"T{number}"), _get(item, self.label, str), (Range(*ends),))


_PRODIGY = _SpanKeys("start", "end", "label")
_DOCCANO = _SpanKeys("start_offset", "end_offset", "label")
_PRESIDIO = _SpanKeys("start_position", "end_position", "entity_type")


def _triple(item: object, number: int) -> Entity:
    if not isinstance(item, list) or len(item) < 3 or not isinstance(item[2], str):
        raise ShapeError("does not have the form [start, end, label]")
    return Entity(f"T{number}", item[2], _ranges([item[:2]]))


def _get(value: object, key: str, kind: type[Value], *, default: Value | None = None) -> Value:
    """Return `value[key]`, which must be of this kind, or the default if it is absent or null."""
    if not isinstance(value, dict):
        raise ShapeError("expected an object")
    found = value.get(key)
    if found is None and default is not None:
        return default
    if not isinstance(found, kind) or isinstance(found, bool):
        raise ShapeError(f"{key!r} is missing or is not {_KINDS[kind]}")
    return found


def _name(value: object, default: str) -> str:
    """Return the id of a value, which tools write as a string or a number."""
    found = value.get("id") if isinstance(value, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | str):
        return default
    return str(found)


def _each(value: object, key: str, parse: Callable[[object, int], Part], *, report: Reporter) -> Iterator[Part]:
    """Yield the parsed items of a list; report those that do not fit."""
    for number, item in enumerate(_get(value, key, list, default=[]), start=1):
        try:
            part = parse(item, number)
        except (ShapeError, TextError) as error:
            report.error(f"{key} {number}: {error}")
        else:
            yield part


def _ranges(pairs: list[Any]) -> tuple[Range, ...]:
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or any(type(end) is not int for end in pair):
            raise ShapeError("a range is not two whole numbers")
    return tuple(Range(*pair) for pair in pairs)


def _words(value: object, key: str, text: str, *, report: Reporter) -> tuple[Range, ...] | None:
    """Return ranges in order, from pairs or objects with `start` and `end`; None if they are absent or faulty."""
    items = _get(value, key, list, default=[])
    if not items and not (isinstance(value, dict) and value.get(key) is not None):
        return None
    try:
        pairs = [[_get(i, "start", int), _get(i, "end", int)] if isinstance(i, dict) else i for i in items]
        found = _ranges(pairs)
        Document("", text, words=found)
    except (ShapeError, TextError):
        report.error(f"{key!r} are not ranges in order and inside the text; left out")
        return None
    return found


def _attributes(value: object) -> Attributes:
    pairs = _get(value, "attributes", list, default=[])
    if not all(isinstance(p, list) and len(p) == 2 and all(isinstance(s, str) for s in p) for p in pairs):
        raise ShapeError("'attributes' are not pairs of strings")
    return tuple((name, found) for name, found in pairs)


def _score(item: object) -> float | None:
    found = item.get("score") if isinstance(item, dict) else None
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
        raise ShapeError("'score' is not a probability")
    return float(found)


def _refuse_discontinuous(document: Document, shape: str) -> None:
    for entity in document.entities:
        if entity.is_discontinuous:
            raise CorpusError(
                f"{entity.id} is discontinuous, which the shape {shape} cannot hold; choose wardround or brat"
            )


def _refuse_concept_relations(document: Document, shape: str) -> None:
    if any(relation.level is Level.CONCEPT for relation in document.relations):
        raise CorpusError(f"relates concepts, which the shape {shape} cannot hold; choose the shape wardround")


READERS: dict[str, Callable[[object, str, Reporter], Document | None]] = {
    "wardround": read_own,
    "prodigy": read_prodigy,
    "spacy": read_spacy,
    "doccano": read_doccano,
    "presidio": read_presidio,
}
WRITERS: dict[str, Callable[[Document], object]] = {
    "wardround": write_own,
    "prodigy": write_prodigy,
    "spacy": write_spacy,
    "doccano": write_doccano,
}
HOLDS: dict[str, frozenset[Content]] = {
    "wardround": EVERYTHING,
    "prodigy": frozenset({"entities", "relations", "words"}),
    "spacy": frozenset({"entities"}),
    "doccano": frozenset({"entities", "relations"}),
    "presidio": frozenset({"entities", "attributes"}),
}
