"""PubTator: title, abstract, then a tab line for each mention and each relation; a blank line ends a document.

    4711|t|Rash after lunarol
    4711|a|Two nurses took lunarol and developed a rash.
    4711	11	18	lunarol	Chemical	D0001
    4711	57	61	rash	Disease	D0002,D0003
    4711	Positive_Correlation	D0001	D0002	Novel

The text is title, line break, abstract, and offsets run on over the break. Relations are between concepts, not
mentions. One mention may have several concept ids; `-` and `-1` stand for none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from wardround.corpora.draft import Draft, Reporter
from wardround.corpora.source import ProblemSink, fail_on_error, files_below, open_for_writing, read_each, read_lines
from wardround.errors import CorpusError
from wardround.text.document import Attributes, Document, Entity, Level, Relation

__all__ = [
    "Pubtator",
    "add_mention",
    "add_relations",
    "check_plain",
    "join_concepts",
    "split_concepts",
    "whole_number",
]

_HEADER = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_BLANKS = str.maketrans("\t\r\n", "   ")
_NO_CONCEPT = ("", "-", "-1")
_NOVELTY = "novelty"


class _Row(NamedTuple):
    columns: list[str]
    report: Reporter


@dataclass(frozen=True)
class Pubtator:
    """Reader and writer of PubTator files.

    `separators` are the characters between the concept ids of one mention. `|` is not among them by default:
    the ids of sequence variants contain it.
    """

    separators: str = ",;"

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of every `.PubTator` file below a folder."""
        files = files_below(path, ".PubTator", ".pubtator")
        return read_each(files, lambda file: self._read_file(Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file. Ids of entities and relations, notes, and attributes but novelty are not kept."""
        with open_for_writing(path) as stream:
            for document in documents:
                try:
                    stream.write("\n".join(self._lines(document)) + "\n\n")
                except CorpusError as error:
                    raise CorpusError(f"document {document.id!r}: {error.reason}", path=path) from None

    # Reading, in calling order.

    def _read_file(self, report: Reporter) -> Iterator[Document]:
        for block in _blocks(report.path):
            number, line = block[0]
            header = _HEADER.fullmatch(line)
            if header is None or header[2] != "t":
                report.at(number).error("a document begins with 'PMID|t|title'; the lines up to the next are left out")
            else:
                yield self._document(header, block[1:], report)

    def _document(self, title: re.Match[str], lines: Sequence[tuple[int, str]], report: Reporter) -> Document:
        document_id, text = title[1], title[3]
        abstract = _HEADER.fullmatch(lines[0][1]) if lines else None
        if abstract is not None and abstract[1] == document_id:
            text += "\n" + abstract[3]
            lines = lines[1:]
        draft = Draft(text)
        relations = []
        for row in _rows(document_id, lines, report):
            if _is_mention(row.columns):
                self._add_mention(draft, row)
            else:
                relations.append(row)
        _add_relations(draft, relations)
        return draft.document(document_id)

    def _add_mention(self, draft: Draft, row: _Row) -> None:
        _, start, end, words, kind, *rest = row.columns
        add_mention(
            draft,
            row.report,
            entity_id=f"T{len(draft.entities) + 1}",
            kind=kind,
            ranges=[(int(start), int(end))],
            words=words,
            concepts=split_concepts(rest[0], self.separators) if rest else (),
        )

    # Writing, in calling order.

    def _lines(self, document: Document) -> Iterator[str]:
        check_plain("its id", document.id)
        if "|" in document.id:
            raise CorpusError("its id holds a '|', which ends an id in PubTator; rename it")
        if "\r" in document.text or document.text.count("\n") > 1:
            raise CorpusError("PubTator holds a title and an abstract of one line each; write it as BioC or brat")
        title, line_break, abstract = document.text.partition("\n")
        yield f"{document.id}|t|{title}"
        if line_break:
            yield f"{document.id}|a|{abstract}"
        for entity in document.entities:
            yield f"{document.id}\t{self._mention_line(entity, document.text)}"
        for relation in document.relations:
            yield f"{document.id}\t{_relation_line(relation)}"

    def _mention_line(self, entity: Entity, text: str) -> str:
        check_plain(f"the type of {entity.id}", entity.type)
        if entity.is_discontinuous:
            raise CorpusError(f"{entity.id} is discontinuous, which PubTator cannot say; write it as BioC or brat")
        words = entity.text_in(text).translate(_BLANKS)
        concepts = join_concepts(entity.concepts, self.separators) or "-"
        return f"{entity.start}\t{entity.end}\t{words}\t{entity.type}\t{concepts}"


# What other biomedical formats share with this one.


def add_mention(
    draft: Draft,
    report: Reporter,
    *,
    entity_id: str,
    kind: str,
    ranges: Sequence[tuple[int, int]],
    words: str | None,
    concepts: tuple[str, ...] = (),
    attributes: Attributes = (),
    note: str = "",
) -> bool:
    """Keep the mention, or report why not: `words` (None: unknown) must stand at its ranges.

    Runs of white space are alike: files write line ends inside a mention as blanks.
    """
    if not draft.add_entity(entity_id, kind, sorted(ranges), report):
        return False
    found = " ".join(draft.text[start:end] for start, end in ranges)
    if words is not None and re.sub(r"\s+", " ", words) != re.sub(r"\s+", " ", found):
        report.error(f"{entity_id}: the words given for it are not what stands at its offsets in the text")
        del draft.entities[entity_id]
        return False
    kept = draft.entities[entity_id]
    draft.entities[entity_id] = replace(kept, concepts=concepts, attributes=attributes, note=note)
    return True


def add_relations(draft: Draft, relations: Iterable[tuple[Relation, Reporter]]) -> None:
    """Keep the relations whose ends the document has, once all its mentions are in; report the others."""
    known = {concept for entity in draft.entities.values() for concept in entity.concepts}
    for relation, report in relations:
        if relation.level is Level.MENTION:
            draft.add_relation(relation, report)
        elif not known.issuperset((relation.head, relation.tail)):
            report.error("the relation names a concept that no mention of the document has; it is left out")
        elif relation.id in draft.relations:
            report.error(f"a second relation has the id {relation.id}")
        else:
            draft.relations[relation.id] = relation


def split_concepts(column: str, separators: str) -> tuple[str, ...]:
    """The ids in `column`, parted by any of the separators."""
    parts = re.split(f"[{re.escape(separators)}]", column) if separators else [column]
    return tuple(part.strip() for part in parts if part.strip() not in _NO_CONCEPT)


def join_concepts(concepts: Sequence[str], separators: str) -> str:
    """The ids parted by the first separator; what would not be read back is a `CorpusError`."""
    joined = separators[:1].join(concepts)
    if joined:
        check_plain("a concept id", joined)
    if split_concepts(joined, separators) != tuple(concepts):
        raise CorpusError(f"a concept id is empty, '-', '-1', or holds a blank at its ends or one of {separators!r}")
    return joined


def whole_number(column: str) -> int | None:
    """The number, or None where it is none or too long to be an offset."""
    return int(column) if re.fullmatch(r"[0-9]{1,12}", column) else None


def check_plain(what: str, value: str) -> None:
    """Refuse a value that cannot stand in a column."""
    if not value or any(character in value for character in "\t\r\n"):
        raise CorpusError(f"{what} is empty or holds a tab or a line end, which a column cannot; rename it")


# Lines.


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of each document: a blank line ends it, and so does the title of the next."""
    block: list[tuple[int, str]] = []
    for number, line in read_lines(path):
        if number == 1:
            line = line.removeprefix("\ufeff")
        header = _HEADER.fullmatch(line)
        if block and (not line.strip() or (header is not None and header[2] == "t")):
            yield block
            block = []
        if line.strip():
            block.append((number, line))
    if block:
        yield block


def _rows(document_id: str, lines: Iterable[tuple[int, str]], report: Reporter) -> Iterator[_Row]:
    """Lines that belong to the document and have as many columns as a mention or a relation."""
    for number, line in lines:
        row = _Row(line.split("\t"), report.at(number))
        if row.columns[0] != document_id:
            row.report.error(f"is not a line of document {document_id}: it begins with another id")
        elif _is_mention(row.columns) or (len(row.columns) in (4, 5) and row.columns[1]):
            yield row
        else:
            row.report.error(
                f"has {len(row.columns)} columns: a mention has six with offsets in the second and third, "
                "a relation four or five"
            )


def _is_mention(columns: Sequence[str]) -> bool:
    # A seventh column names the parts of a composite mention; offsets and concepts say it all.
    return len(columns) in (5, 6, 7) and whole_number(columns[1]) is not None and whole_number(columns[2]) is not None


def _add_relations(draft: Draft, rows: Iterable[_Row]) -> None:
    relations = []
    for number, ((_, kind, head, tail, *rest), report) in enumerate(rows, start=1):
        novelty = tuple((_NOVELTY, value) for value in rest)
        relations.append((Relation(f"R{number}", kind, head, tail, Level.CONCEPT, novelty), report))
    add_relations(draft, relations)


def _relation_line(relation: Relation) -> str:
    if relation.level is not Level.CONCEPT:
        raise CorpusError(f"{relation.id} relates mentions, PubTator relates concepts; write it as BioC or brat")
    novelty = dict(relation.attributes).get(_NOVELTY)
    columns = [relation.type, relation.head, relation.tail, *([] if novelty is None else [novelty])]
    for column in columns:
        check_plain(f"the type, a concept or the novelty of {relation.id}", column)
    if whole_number(relation.type) is not None and whole_number(relation.head) is not None:
        raise CorpusError(f"{relation.id} has a number as its type, which PubTator takes for an offset; rename it")
    return "\t".join(columns)
