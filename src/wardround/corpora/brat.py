r"""brat standoff: a note `x.txt` and its annotations `x.ann` next to each other, in a folder or below it.

    T1	Drug 0 7	Aspirin
    T2	ADE 21 25;30 35	skin burns
    R1	Causes Arg1:T1 Arg2:T2
    A1	Negation T2
    N1	Reference T1 RxNorm:1191	aspirin
    #1	AnnotatorNotes T2	not sure

Offsets count Unicode code points and include line ends exactly as in the file. Line ends inside a mention are spaces in
the text column. Events (`E`) and equivalences (`*`) are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from wardround.corpora.corpus_files import (
    BYTE_ORDER_MARK,
    files_below,
    id_of,
    read_each,
    read_text,
    sibling,
    unpacked_name,
    write_folder,
)
from wardround.corpora.corpus_format import (
    EVERYTHING,
    OFFSETS,
    Clue,
    Content,
    CorpusFormat,
    Draft,
    Problem,
    ProblemSink,
    Reporter,
    fail_on_error,
    is_plain,
    offset_pairs,
)
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Relation

__all__ = ["Brat"]

_ID = re.compile(r"[TRAMNE#][0-9]+\S{0,20}|\*")
_ENTITY = re.compile(rf"(\S+) ({OFFSETS})")
_RELATION = re.compile(r"(\S+) ([^\s:]+):(\S+) ([^\s:]+):(\S+)\s*")
_ATTRIBUTE = re.compile(r"(\S+) (\S+)(?: (.*))?", re.DOTALL)
_REFERENCE = re.compile(r"\S+ (\S+) (.+)", re.DOTALL)
_REMARK = re.compile(r"(\S+) (\S+)")
_NOT_READ = {"E": "an event", "*": "an equivalence", "#": "a remark of another kind"}
_LINE_ENDS = str.maketrans("\r\n", "  ")


class _Line(NamedTuple):
    """One annotation: `id TAB body TAB text`."""

    id: str
    body: str
    text: str | None
    report: Reporter


@dataclass(frozen=True)
class Brat(CorpusFormat):
    """Reader and writer of brat standoff.

    A document's id is its path below the folder, without ending. The writer keeps the entity ids of a document if all
    begin with `T`, and the relation ids if all begin with `R`; otherwise it numbers them. Words, sentences and the
    attributes of documents are not kept.
    """

    name = "brat"
    description = "brat standoff: `.txt` with `.ann` next to it"
    holds = EVERYTHING - frozenset[Content]({"words", "sentences"})
    clues = (Clue((".txt", ".ann"), "has annotations in `.ann` files beside it", beside=".ann"),)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the notes of a folder, or the note of a `.txt` or `.ann` path."""
        return read_each(_notes(path, problems), lambda note: _read_note(note, path, problems), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write a `.txt` and an `.ann` file for each document into the folder `path`."""
        write_folder(documents, path, _contents)


def _notes(path: Path, problems: ProblemSink) -> Iterator[Path]:
    """Yield the `.txt` files; report each `.ann` file without one."""
    for file in files_below(path, ".txt", ".ann"):
        if not unpacked_name(file).endswith(".ann"):
            yield file
        elif text := sibling(file, ".txt"):
            if file == path:
                yield text
        else:
            Reporter(file, problems).error("has no .txt file next to it")


def _read_note(note: Path, root: Path, problems: ProblemSink) -> Iterator[Document]:
    text = read_text(note)
    annotations = sibling(note, ".ann")
    if text.startswith(BYTE_ORDER_MARK) and annotations is not None:
        text = _as_annotated(text, annotations)
    draft = Draft(text)
    if annotations is None:
        Reporter(note, problems).warning("has no .ann file next to it; read as a note without entities")
    else:
        # Entities first, then relations: other lines may refer to one that comes later in the file.
        order = {"T": 0, "R": 1}
        remarks: dict[str, list[str]] = {}
        for line in sorted(_lines(Reporter(annotations, problems)), key=lambda line: order.get(line.id[0], 2)):
            if line.id[0] == "#":
                _read_remark(draft, line, remarks)
            else:
                _READERS.get(line.id[0], _not_read)(draft, line)
        for name, lines in remarks.items():
            draft.replace_entity(replace(draft.entities[name], note="\n".join(lines)))
    yield draft.document(id_of(note, root))


def _as_annotated(text: str, annotations: Path) -> str:
    """Return a text without its byte order mark if the offsets do not count it: fewer mentions then differ from it."""

    def faults(text: str) -> int:
        draft, found = Draft(text), list[Problem]()
        for line in _lines(Reporter(annotations, found.append)):
            if line.id[0] == "T":
                _read_entity(draft, line)
        return len(found)

    without = text.removeprefix(BYTE_ORDER_MARK)
    return without if faults(without) < faults(text) else text


def _lines(report: Reporter) -> Iterator[_Line]:
    # Split at "\n" only: a mention across "\r\n" leaves a single "\r" in the text column.
    for number, raw in enumerate(read_text(report.path).removeprefix(BYTE_ORDER_MARK).split("\n"), start=1):
        line = raw.removesuffix("\r")
        name, _, rest = line.partition("\t")
        body, tab, text = rest.partition("\t")
        if _ID.fullmatch(name):
            yield _Line(name, body, text if tab else None, report.at(number))
        elif line.strip():
            report.at(number).error(
                "is not an annotation: expected an id such as T1, R1, A1, M1, N1, E1, #1 or *, then a tab"
            )


def _read_entity(draft: Draft, line: _Line) -> None:
    match = _ENTITY.fullmatch(line.body)
    if match is None:
        line.report.error(f"{line.id} does not have the form 'type start end'")
    else:
        kind, offsets = match.groups()
        ranges, words = offset_pairs(offsets), line.text or ""
        draft.add_entity(line.report, entity_id=line.id, kind=kind, ranges=ranges, words=words)


def _read_relation(draft: Draft, line: _Line) -> None:
    match = _RELATION.fullmatch(line.body)
    if match is None:
        line.report.error(f"{line.id} does not have the form 'type Arg1:id Arg2:id'")
        return
    kind, first, head, second, tail = match.groups()
    if (first, second) == ("Arg2", "Arg1"):
        head, tail = tail, head
    if head.startswith("E") or tail.startswith("E"):
        line.report.warning(f"{line.id} relates an event; not read")
    else:
        draft.add_relation(Relation(line.id, kind, head, tail), line.report)


def _read_attribute(draft: Draft, line: _Line) -> None:
    match = _ATTRIBUTE.fullmatch(line.body)
    if match is None:
        line.report.error(f"{line.id} does not have the form 'name target value'")
        return
    pair = (match[1], match[3] or "")
    if relation := draft.relations.get(match[2]):
        draft.relations[relation.id] = replace(relation, attributes=(*relation.attributes, pair))
    elif entity := _target(draft, match[2], line):
        draft.replace_entity(replace(entity, attributes=(*entity.attributes, pair)))


def _read_reference(draft: Draft, line: _Line) -> None:
    match = _REFERENCE.fullmatch(line.body)
    if match is None:
        line.report.error(f"{line.id} does not have the form 'Reference target resource:id'")
    elif entity := _target(draft, match[1], line):
        draft.replace_entity(replace(entity, concepts=(*entity.concepts, match[2])))


def _read_remark(draft: Draft, line: _Line, remarks: dict[str, list[str]]) -> None:
    match = _REMARK.fullmatch(line.body)
    if match is None or match[1] != "AnnotatorNotes" or not match[2].startswith("T"):
        _not_read(draft, line)
    elif entity := _target(draft, match[2], line):
        remarks.setdefault(entity.id, []).append(line.text or "")


def _target(draft: Draft, name: str, line: _Line) -> Entity | None:
    entity = draft.entities.get(name)
    if entity is None and name.startswith("E"):
        line.report.warning(f"{line.id} refers to an event; not read")
    elif entity is None:
        line.report.error(f"{line.id} refers to something that is not a mention here")
    return entity


def _not_read(draft: Draft, line: _Line) -> None:
    line.report.warning(f"is {_NOT_READ[line.id[0]]}; not read")


_READERS = {
    "T": _read_entity,
    "R": _read_relation,
    "A": _read_attribute,
    "M": _read_attribute,
    "N": _read_reference,
}


def _contents(document: Document) -> dict[str, str]:
    """Return the content of the file for each ending, with ids that are valid in brat."""
    if any(relation.level is Level.CONCEPT for relation in document.relations):
        raise CorpusError("relates concepts, but brat relates mentions; write it as pubtator, bioc or jsonl")
    entity_ids = [entity.id for entity in document.entities]
    names = dict(zip(entity_ids, _names(entity_ids, "T"), strict=True))
    relation_names = _names([relation.id for relation in document.relations], "R")
    renumbered = replace(
        document,
        entities=tuple(replace(entity, id=names[entity.id]) for entity in document.entities),
        relations=tuple(
            replace(relation, id=name, head=names[relation.head], tail=names[relation.tail])
            for relation, name in zip(document.relations, relation_names, strict=True)
        ),
    )
    return {".txt": document.text, ".ann": "".join(f"{line}\n" for line in _annotations(renumbered))}


def _names(ids: list[str], letter: str) -> list[str]:
    fit = all(name.startswith(letter) and _ID.fullmatch(name) for name in ids)
    return ids if fit else [f"{letter}{number}" for number in range(1, len(ids) + 1)]


def _annotations(document: Document) -> Iterator[str]:
    """Yield the lines of the `.ann` file."""
    numbers = {letter: count(1) for letter in "AN#"}
    for entity in document.entities:
        _check_fields(entity)
        offsets = ";".join(f"{start} {end}" for start, end in entity.ranges)
        yield f"{entity.id}\t{entity.type} {offsets}\t{entity.text_in(document.text).translate(_LINE_ENDS)}"
    for relation in document.relations:
        _check_fields(relation)
        yield f"{relation.id}\t{relation.type} Arg1:{relation.head} Arg2:{relation.tail}"
    owners: tuple[Entity | Relation, ...] = (*document.entities, *document.relations)
    for owner in owners:
        for name, value in owner.attributes:
            yield f"A{next(numbers['A'])}\t{name} {owner.id}" + (f" {value}" if value else "")
    for entity in document.entities:
        for concept in entity.concepts:
            yield f"N{next(numbers['N'])}\tReference {entity.id} {concept}\t{concept}"
        # A remark of several lines becomes several remarks.
        for remark in entity.note.replace("\r\n", "\n").replace("\r", "\n").split("\n") if entity.note else []:
            yield f"#{next(numbers['#'])}\tAnnotatorNotes {entity.id}\t{remark}"


def _check_fields(owner: Entity | Relation) -> None:
    """Check that types and attribute names are one word, and values and concepts one line without tabs."""
    values = [value for _, value in owner.attributes]
    concepts = owner.concepts if isinstance(owner, Entity) else ()
    words = [owner.type, *(name for name, _ in owner.attributes)]
    if not (
        all(re.fullmatch(r"\S+", word) for word in words) and all(map(is_plain, (*values, *concepts))) and all(concepts)
    ):
        raise CorpusError(
            f"the type, an attribute or a concept of {owner.id} is empty or has white space that brat does not allow; "
            "rename it, or write the corpus as jsonl"
        )
