"""UIMA CAS as INCEpTION exports it, one file for each note: JSON (0.4) or XMI, in a folder or below it.

    {"%TYPES": {"webanno.custom.PHI": {"%SUPER_TYPE": "uima.tcas.Annotation", "kind": {…}}},
     "%FEATURE_STRUCTURES": [
       {"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaID": "_InitialView", "sofaString": "Aspirin burns"},
       {"%ID": 2, "%TYPE": "webanno.custom.PHI", "@sofa": 1, "begin": 0, "end": 7, "kind": "Drug"}],
     "%VIEWS": {"_InitialView": {"%SOFA": 1, "%MEMBERS": [2]}}}

    <custom:PHI xmi:id="2" sofa="1" begin="0" end="7" kind="Drug"/>  (the same annotation in XMI)

Offsets count UTF-16 code units. An annotation of a chosen layer is a mention, and its type is the value of a feature.
An annotation with `Governor` and `Dependent` is a relation. Nothing is read from the address in `sofaURI`, and a type
system beside the files is not needed. The library dkpro-cassis reads both forms as well, but it expands entities of
XML, and stops at the first fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from wardround.corpora.corpus_files import BYTE_ORDER_MARK, files_below, id_of, read_each, read_text, write_folder
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    fail_on_error,
    whole_number,
)
from wardround.corpora.utf16 import Utf16Offsets
from wardround.corpora.xml import read_xml
from wardround.errors import CorpusError, UsageError
from wardround.parsing import MalformedDataError, is_integer, parse_json
from wardround.text.document import Document, Level, Range, Relation

__all__ = ["UimaCas"]

_SOFA = "uima.cas.Sofa"
_DKPRO = "de.tudarmstadt.ukp.dkpro.core.api"
_NAMED_ENTITY = f"{_DKPRO}.ner.type.NamedEntity"
_TOKEN, _SENTENCE = f"{_DKPRO}.segmentation.type.Token", f"{_DKPRO}.segmentation.type.Sentence"
_RELATION = "webanno.custom.Relation"
# Layers of a project, and the built-in one for named entities; all others are what INCEpTION itself adds.
_LAYERS = ("webanno.custom.", "custom.", _NAMED_ENTITY)
_HEAD, _TAIL = "Governor", "Dependent"
_ROOT = "{http://www.omg.org/XMI}XMI"
_XMI_ID = "{http://www.omg.org/XMI}id"
_NOT_FEATURES = {"begin", "end", "sofa", _XMI_ID}
_STRING = "uima.cas.String"


@dataclass(frozen=True)
class _Annotation:
    """One feature structure: its type, and its features as they are in the file, with references by id."""

    id: str
    type: str
    features: Mapping[str, Any] = field(repr=False)
    report: Reporter

    def number(self, name: str) -> int | None:
        """Return a feature that is a number."""
        found = self.features.get(name)
        if isinstance(found, str):
            return whole_number(found)
        return found if is_integer(found) and 0 <= found < 10**12 else None

    def reference(self, name: str) -> str:
        """Return the id that a feature refers to: JSON marks references by `@`, XMI does not."""
        found = self.features.get("@" + name, self.features.get(name))
        return str(found) if is_integer(found) or isinstance(found, str) else ""

    def labels(self) -> dict[str, str]:
        """Return the features that are text."""
        plain = _NOT_FEATURES | {_HEAD, _TAIL}
        return {
            name: value
            for name, value in self.features.items()
            if isinstance(value, str) and name not in plain and name[:1] not in "%@#^"
        }


@dataclass(frozen=True)
class UimaCas(CorpusFormat):
    """Reader of CAS JSON and XMI, and writer of CAS JSON.

    `layer` names the layers whose annotations are mentions; by default all custom layers and NamedEntity. `feature`
    names the feature with the type; by default the only feature that is text. `words` also reads tokens and sentences,
    which INCEpTION makes itself. Other features that are text become attributes. The writer uses NamedEntity and a
    layer `webanno.custom.Relation`; it does not keep attributes.
    """

    name = "cas"
    description = "UIMA CAS of INCEpTION: `.json` or `.xmi`, one note each"
    holds = frozenset[Content]({"entities", "relations", "words", "sentences", "attributes"})
    clues = (
        Clue((".json",), "is CAS JSON", content=r'"%(?:TYPES|FEATURE_STRUCTURES|VIEWS)"'),
        Clue((".xmi", ".xml"), "is CAS XMI", content=r"<xmi:XMI\b"),
    )

    layer: tuple[str, ...] | None = None
    feature: str | None = None
    words: bool = False

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the note of a file, or of each `.json` and `.xmi` file below a folder; ids are paths."""

        def read_one(file: Path) -> Iterator[Document]:
            document = self._read_file(file, path, Reporter(file, problems))
            if document is not None:
                yield document

        return read_each(files_below(path, ".json", ".xmi"), read_one, problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write a `.json` file for each document. Ids of entities and relations are not kept."""
        write_folder(documents, path, lambda document: {".json": json.dumps(_cas(document), ensure_ascii=False)})

    def _read_file(self, file: Path, root: Path, report: Reporter) -> Document | None:
        text, annotations, features = (_read_json if ".json" in file.suffixes else _read_xmi)(file, report)
        if text is None:
            return None
        declared = set(features)
        chosen = [a for a in annotations if self._is_chosen(a.type)]
        for annotation in chosen:  # of a layer whose features the file does not declare, those that have a value
            if annotation.type not in declared:
                features.setdefault(annotation.type, set()).update(annotation.labels())
        draft, offsets, names = Draft(text), Utf16Offsets(text), dict[str, str]()
        for annotation in (a for a in chosen if not a.reference(_HEAD)):
            name = f"T{len(names) + 1}"
            label = self._label(annotation, features)
            span = _span(annotation, offsets)
            if not label:
                annotation.report.error("the annotation has no type; label it, or skip faulty parts")
            elif span and draft.add_entity(
                annotation.report,
                entity_id=name,
                kind=annotation.labels()[label],
                ranges=[span],
                attributes=tuple((k, v) for k, v in annotation.labels().items() if k != label),
            ):
                names[annotation.id] = name
        for number, annotation in enumerate((a for a in chosen if a.reference(_HEAD)), start=1):
            label = self._label(annotation, features, required=False)
            kind = annotation.labels().get(label) or annotation.type.rpartition(".")[2]
            head, tail = (names.get(annotation.reference(end), "") for end in (_HEAD, _TAIL))
            rest = tuple((k, v) for k, v in annotation.labels().items() if k != label)
            draft.add_relation(Relation(f"R{number}", kind, head, tail, attributes=rest), annotation.report)
        words, sentences = (
            _units(kind, annotations, text, offsets) if self.words else None for kind in (_TOKEN, _SENTENCE)
        )
        return draft.document(id_of(file, root), words=words, sentences=sentences)

    def _is_chosen(self, type_name: str) -> bool:
        return type_name in self.layer if self.layer else type_name.startswith(_LAYERS)

    def _label(self, annotation: _Annotation, features: Mapping[str, set[str]], *, required: bool = True) -> str:
        """Return the name of the feature with the type, if the annotation has a value for it."""
        if self.feature:
            known = {self.feature}
        elif annotation.type == _NAMED_ENTITY:
            known = {"value"}
        else:
            known = features[annotation.type]
        if len(known) > 1 and required:
            raise UsageError(
                f"the layer {annotation.type} has several features: {', '.join(sorted(known))}; "
                "name the one with the type, for example --option feature=" + min(known)
            )
        return next((name for name in sorted(known) if annotation.labels().get(name)), "")


def _span(annotation: _Annotation, offsets: Utf16Offsets) -> tuple[int, int] | None:
    """Return the range of an annotation in code points, or report why there is none."""
    begin, end = annotation.number("begin"), annotation.number("end")
    if begin is None or end is None:
        annotation.report.error("the annotation has no offsets; left out")
        return None
    return offsets.to_code_points(begin), offsets.to_code_points(end)


def _units(kind: str, annotations: Iterable[_Annotation], text: str, offsets: Utf16Offsets) -> tuple[Range, ...] | None:
    """Return the tokens or sentences, in order; None if there are none or they overlap."""
    found = sorted(
        Range(*span) for a in annotations if a.type == kind and (span := _span(a, offsets)) and span[0] < span[1]
    )
    fits = all(left.end <= right.start for left, right in pairwise(found))
    return tuple(found) if found and fits and found[-1].end <= len(text) else None


def _read_json(file: Path, report: Reporter) -> tuple[str | None, list[_Annotation], dict[str, set[str]]]:
    """Return the text, the annotations, and the features of each layer that are text."""
    try:
        cas = parse_json(read_text(file).removeprefix(BYTE_ORDER_MARK), finite=False)
    except MalformedDataError:
        raise CorpusError("is not JSON, or is nested too deeply", path=file) from None
    structures = cas.get("%FEATURE_STRUCTURES") if isinstance(cas, dict) else None
    if not isinstance(structures, list):
        legacy = isinstance(cas, dict) and "_views" in cas
        raise CorpusError(
            "is the legacy form of CAS JSON; export it as UIMA CAS JSON 0.4"
            if legacy
            else "is not CAS JSON: it has no list %FEATURE_STRUCTURES",
            path=file,
        )
    found = []
    for number, item in enumerate(structures, start=1):
        here = Reporter(file, report.problems, item=f"structure {number}: ")
        if not isinstance(item, dict) or not isinstance(item.get("%TYPE"), str):
            here.error("is not an object with a %TYPE")
            continue
        found.append(_Annotation(str(item.get("%ID", "")), item["%TYPE"], item, here))
    types = cas.get("%TYPES")
    features: dict[str, set[str]] = {}
    for name, layer in types.items() if isinstance(types, dict) else ():
        if isinstance(layer, dict):
            ranges = {key: value.get("%RANGE") for key, value in layer.items() if isinstance(value, dict)}
            features[name] = {key for key, value in ranges.items() if value == _STRING}
    return *_in_first_view(found, report), features


def _read_xmi(file: Path, report: Reporter) -> tuple[str | None, list[_Annotation], dict[str, set[str]]]:
    """Return the text and the annotations; XMI does not say which features are text."""
    found = []
    for root in read_xml(file, _ROOT):
        for node in root.children:
            namespace, _, name = node.tag.lstrip("{").rpartition("}")
            package = namespace.removeprefix("http:///").removesuffix(".ecore").replace("/", ".")
            kind = f"{package}.{name}" if package and package != "noNamespace" else name
            features = dict(node.attributes)
            found.append(_Annotation(features.get(_XMI_ID, ""), kind, features, report.at(node.line)))
    if not found:
        raise CorpusError("is not CAS XMI: it has no element xmi:XMI", path=file)
    return *_in_first_view(found, report), {}


def _in_first_view(found: list[_Annotation], report: Reporter) -> tuple[str | None, list[_Annotation]]:
    """Return the text of the first view and its annotations; None, and a report, if it has no text."""
    sofas = [a for a in found if a.type == _SOFA]
    sofa = next((a for a in sofas if a.features.get("sofaID") == "_InitialView"), sofas[0] if sofas else None)
    text = None if sofa is None else sofa.features.get("sofaString")
    if sofa is None or not isinstance(text, str):
        report.error("has no text of its own (sofaString); left out")
        return None, []
    try:
        text.encode()
    except UnicodeEncodeError:
        report.error("contains half a surrogate pair, which is not a character; left out")
        return None, []
    if len(sofas) > 1:
        report.warning("has several views; only the first one is read")
    return text, [a for a in found if a.reference("sofa") == sofa.id]


def _cas(document: Document) -> dict[str, Any]:
    """Return a document as CAS JSON with named entities and relations."""
    offsets = Utf16Offsets(document.text)
    structures: list[dict[str, Any]] = [
        {
            "%ID": 1,
            "%TYPE": _SOFA,
            "sofaNum": 1,
            "sofaID": "_InitialView",
            "mimeType": "text",
            "sofaString": document.text,
        }
    ]

    def annotate(kind: str, start: int, end: int, **features: Any) -> int:
        place = {"@sofa": 1, "begin": offsets.to_utf16(start), "end": offsets.to_utf16(end)}
        structures.append({"%ID": len(structures) + 1, "%TYPE": kind, **place, **features})
        return len(structures)

    for kind, units in ((_SENTENCE, document.sentences), (_TOKEN, document.words)):
        for start, end in units or ():
            annotate(kind, start, end)
    ids: dict[str, int] = {}
    spans: dict[str, Range] = {}
    for entity in document.entities:
        if entity.is_discontinuous:
            raise CorpusError(f"{entity.id} is discontinuous, which CAS cannot hold; write it as brat or jsonl")
        ids[entity.id] = annotate(_NAMED_ENTITY, entity.start, entity.end, value=entity.type)
        spans[entity.id] = entity.envelope
    for relation in document.relations:
        if relation.level is Level.CONCEPT:
            raise CorpusError("relates concepts, but CAS relates mentions; write it as pubtator, bioc or jsonl")
        place = spans[relation.tail]
        ends = {f"@{_HEAD}": ids[relation.head], f"@{_TAIL}": ids[relation.tail]}
        annotate(_RELATION, place.start, place.end, **ends, label=relation.type)
    annotation = {"%SUPER_TYPE": "uima.tcas.Annotation"}
    text, reference = {"%RANGE": _STRING}, {"%RANGE": "uima.tcas.Annotation"}
    named = {"%NAME": _RELATION, **annotation}
    ends_of = {end: {"%NAME": end, **reference} for end in (_HEAD, _TAIL)}
    types: dict[str, Any] = {
        _NAMED_ENTITY: {"%NAME": _NAMED_ENTITY, **annotation, "value": {"%NAME": "value", **text}},
        _RELATION: {**named, **ends_of, "label": {"%NAME": "label", **text}},
    }
    for kind in (_SENTENCE, _TOKEN):
        types[kind] = {"%NAME": kind, **annotation}
    members = list(range(2, len(structures) + 1))
    return {
        "%TYPES": types,
        "%FEATURE_STRUCTURES": structures,
        "%VIEWS": {"_InitialView": {"%SOFA": 1, "%MEMBERS": members}},
    }
