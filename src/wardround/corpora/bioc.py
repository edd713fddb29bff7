"""BioC XML: documents of passages, with annotations and relations in place.

    <document><id>4711</id>
      <passage><offset>0</offset><text>Lunarol gave her a rash.</text>
        <annotation id="T1"><infon key="type">Drug</infon><location offset="0" length="7"/></annotation>
        <annotation id="T2"><infon key="type">ADE</infon><location offset="19" length="4"/></annotation>
        <relation id="R1"><infon key="type">causes</infon><node refid="T1" role="head"/>...</relation>
      </passage></document>

Offsets count from the start of the document. A gap between passages becomes a line break and spaces, so that offsets
stay correct. The infon `identifier` contains concept ids and `note` a remark; other infons become attributes. A
relation has two nodes, or the infons `entity1` and `entity2`, which name concepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wardround.corpora.corpus_files import files_below, read_each, write_file
from wardround.corpora.corpus_format import (
    EVERYTHING,
    Clue,
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    fail_on_error,
    join_concepts,
    split_concepts,
    whole_number,
)
from wardround.corpora.xml import XmlNode, escape_xml, read_xml
from wardround.errors import CorpusError
from wardround.text.document import Attributes, Document, Level, Range, Relation

__all__ = ["Bioc"]

_MAXIMUM_GAP = 10_000_000  # characters between two passages; a larger gap is a wrong offset
_TYPE, _CONCEPTS, _NOTE, _ENDS = "type", "identifier", "note", ("entity1", "entity2")
_HEAD, _TAIL = "head", "tail"
_OPENING = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source></source><date></date><key></key>
"""


@dataclass(frozen=True)
class Bioc(CorpusFormat):
    """Reader and writer of BioC XML; `separators` are the characters between the concept ids of one mention."""

    name = "bioc"
    description = "BioC XML, `.xml` or `.XML`"
    ending = ".xml"
    holds = EVERYTHING - frozenset[Content]({"words", "sentences"})  # some sentences are read, none are written
    clues = (Clue((".xml", ".XML"), "is a BioC collection", content=r"<collection\b[\s\S]*<passage\b"),)

    separators: str = ",;"

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of each `.xml` file below a folder.

        The infons of collections and passages are not kept. Sentences are kept if they cover all of the text.
        """
        files = files_below(path, ".xml", ".XML")
        return read_each(files, lambda file: self._read_file(Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file with one passage for each document. Words and sentences are not kept."""
        write_file(documents, path, self._lines, opening=_OPENING, closing="</collection>\n")

    def _read_file(self, report: Reporter) -> Iterator[Document]:
        for node in read_xml(report.path, "document"):
            document_id = node.text_of("id")
            if not document_id:
                report.at(node.line).error("the document has no id and is left out")
                continue
            text = _Text(report)
            parts: list[XmlNode] = []
            for passage in node.all("passage"):  # the text of a passage is in itself or in its sentences
                parts += [passage] if passage.find("text") is not None else passage.all("sentence")
            added = [part for part in parts if text.add(part)]
            draft = Draft("".join(text.pieces), words_in="text element")
            for holder in (node, *added):
                for annotation in _all_below(holder, "annotation"):
                    self._add_annotation(draft, annotation, report.at(annotation.line))
            for relation, place in _relations(node, report):
                draft.add_relation(relation, place)
            yield draft.document(document_id, sentences=text.sentences or None, attributes=_infons(node))

    def _add_annotation(self, draft: Draft, node: XmlNode, report: Reporter) -> None:
        infons = _infons(node)
        ranges = []
        for location in node.all("location"):
            start, length = (whole_number(location.attributes.get(key, "")) for key in ("offset", "length"))
            # No entity accepts the empty range of a location that cannot be read.
            ranges.append((0, 0) if start is None or length is None else (start, start + length))
        words = node.find("text")
        draft.add_entity(
            report,
            entity_id=node.attributes.get("id") or f"T{len(draft.entities) + 1}",
            kind=_first(infons, _TYPE),
            ranges=ranges,
            # The words of a discontinuous mention may or may not include the gaps, so they cannot be checked.
            words=words.text if words is not None and len(ranges) == 1 else None,
            concepts=split_concepts(_first(infons, _CONCEPTS), self.separators),
            attributes=_without(infons, _TYPE, _CONCEPTS, _NOTE),
            note=_first(infons, _NOTE),
        )

    def _lines(self, document: Document) -> Iterator[str]:
        if not document.id:
            raise CorpusError("its id is empty; add one")
        yield f"<document>{_element('id', document.id)}"
        yield from map(_infon, document.attributes)
        yield f"<passage><offset>0</offset>{_element('text', document.text)}"
        for entity in document.entities:
            yield _opened("annotation", entity.id)
            _refuse_keys(entity.id, entity.attributes, (_TYPE, _CONCEPTS, _NOTE))
            yield _infon((_TYPE, entity.type))
            if entity.concepts:
                yield _infon((_CONCEPTS, join_concepts(entity.concepts, self.separators)))
            if entity.note:
                yield _infon((_NOTE, entity.note))
            yield from map(_infon, entity.attributes)
            for start, end in entity.ranges:
                yield f'<location offset="{start}" length="{end - start}"/>'
            yield _element("text", entity.text_in(document.text)) + "</annotation>"
        for relation in document.relations:
            yield from _relation_lines(relation)
        yield "</passage></document>"


@dataclass
class _Text:
    """The text of a document, built from passages at their offsets."""

    report: Reporter
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    sentences: list[Range] | None = field(default_factory=list)  # None as soon as some text is in no sentence

    def add(self, part: XmlNode) -> bool:
        """Add the text of a passage or sentence at its offset, or report why not."""
        text, offset = part.text_of("text"), whole_number(part.text_of("offset").strip())
        if not text:
            return True
        report = self.report.at(part.line)
        if offset is None:
            report.error(f"the {part.tag} has no offset and is left out")
        elif offset < self.length:
            report.error(f"the {part.tag} begins at {offset}, but the text before it ends at {self.length}")
        elif offset - self.length > _MAXIMUM_GAP:
            report.error(
                f"the {part.tag} begins at {offset}, too far after {self.length}, the end of the text before it"
            )
        else:
            if offset > self.length:
                self.pieces.append("\n" + " " * (offset - self.length - 1))
            self.pieces.append(text)
            self.length = offset + len(text)
            if part.tag != "sentence":
                self.sentences = None
            elif self.sentences is not None:
                self.sentences.append(Range(offset, self.length))
        return offset is not None and self.length == offset + len(text)


def _all_below(node: XmlNode, tag: str) -> Iterator[XmlNode]:
    """Yield the children named `tag`, and those of a passage's sentences."""
    yield from node.all(tag)
    for sentence in node.all("sentence"):
        yield from sentence.all(tag)


def _infons(node: XmlNode) -> Attributes:
    return tuple((infon.attributes.get("key", ""), infon.text) for infon in node.all("infon"))


def _first(infons: Attributes, key: str) -> str:
    return next((value for name, value in infons if name == key), "")


def _without(infons: Attributes, *keys: str) -> Attributes:
    return tuple(infon for infon in infons if infon[0] not in keys)


def _relations(document: XmlNode, report: Reporter) -> Iterator[tuple[Relation, Reporter]]:
    holders = (document, *document.all("passage"))
    nodes = [relation for holder in holders for relation in _all_below(holder, "relation")]
    for number, node in enumerate(nodes, start=1):
        relation_id, here, infons = node.attributes.get("id") or f"R{number}", report.at(node.line), _infons(node)
        type_key = _TYPE if _first(infons, _TYPE) else "relation"
        kind, ends, rest = _first(infons, type_key), node.all("node"), _without(infons, type_key)
        head, tail = (_first(infons, key) for key in _ENDS)
        if kind and len(ends) == 2:
            if [end.attributes.get("role") for end in ends] == [_TAIL, _HEAD]:
                ends.reverse()
            head, tail = (end.attributes.get("refid", "") for end in ends)
            # Roles other than head and tail become attributes.
            named = zip(("head_role", "tail_role"), (end.attributes.get("role", "") for end in ends), strict=True)
            roles = tuple((name, role) for name, role in named if role not in ("", _HEAD, _TAIL))
            yield Relation(relation_id, kind, head, tail, attributes=(*roles, *rest)), here
        elif kind and not ends and head and tail:
            yield Relation(relation_id, kind, head, tail, Level.CONCEPT, _without(rest, *_ENDS)), here
        else:
            here.error("a relation needs a type and two nodes, or the infons entity1 and entity2")


def _relation_lines(relation: Relation) -> Iterator[str]:
    between_concepts = relation.level is Level.CONCEPT
    _refuse_keys(relation.id, relation.attributes, (_TYPE, *(_ENDS if between_concepts else ())))
    yield _opened("relation", relation.id)
    yield _infon((_TYPE, relation.type))
    ends = (relation.head, relation.tail)
    if between_concepts:
        yield from map(_infon, zip(_ENDS, ends, strict=True))
    yield from map(_infon, relation.attributes)
    if not between_concepts:
        for role, end in zip((_HEAD, _TAIL), ends, strict=True):
            yield f'<node refid="{escape_xml(end, in_attribute=True)}" role="{role}"/>'
    yield "</relation>"


def _refuse_keys(owner: str, attributes: Attributes, reserved: Iterable[str]) -> None:
    for key in reserved:
        if any(name == key for name, _ in attributes):
            raise CorpusError(f"{owner} has an attribute named {key!r}, which BioC uses itself; rename it")


def _opened(tag: str, name: str) -> str:
    if not name:
        raise CorpusError(f"{tag} without an id; add one")
    return f'<{tag} id="{escape_xml(name, in_attribute=True)}">'


def _infon(pair: tuple[str, str]) -> str:
    return f'<infon key="{escape_xml(pair[0], in_attribute=True)}">{escape_xml(pair[1])}</infon>'


def _element(tag: str, text: str) -> str:
    return f"<{tag}>{escape_xml(text)}</{tag}>"
