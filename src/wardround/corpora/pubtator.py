"""PubTator: title, abstract, then a tab-separated line for each mention and relation; a blank line ends a document.

    4711|t|Rash after lunarol
    4711|a|Two nurses took lunarol and developed a rash.
    4711	11	18	lunarol	Chemical	D0001
    4711	57	61	rash	Disease	D0002,D0003
    4711	Positive_Correlation	D0001	D0002	Novel

The text is title, line break and abstract; offsets count the line break. Relations are between concepts, not mentions.
A mention may have several concept ids; `-` and `-1` mean none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wardround.corpora.corpus_files import files_below, read_each, read_lines, write_file
from wardround.corpora.corpus_format import (
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    check_plain,
    fail_on_error,
    join_concepts,
    split_concepts,
    whole_number,
)
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Relation

__all__ = ["Pubtator"]

_HEADER = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_BLANKS = str.maketrans("\t\r\n", "   ")
_NOVELTY = "novelty"


class _Row(NamedTuple):
    columns: list[str]
    report: Reporter


@dataclass(frozen=True)
class Pubtator(CorpusFormat):
    """Reader and writer of PubTator files.

    `separators` are the characters between the concept ids of one mention. `|` is not one of them by default, because
    the ids of sequence variants contain it.
    """

    name = "pubtator"
    description = "`.PubTator`, `.pubtator`"
    ending = ".PubTator"
    holds = frozenset[Content]({"entities", "relations", "concepts", "attributes"})

    separators: str = ",;"

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of each `.PubTator` file below a folder."""
        files = files_below(path, ".PubTator", ".pubtator")
        return read_each(files, lambda file: self._read_file(Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file. Ids of entities and relations, notes, and attributes except novelty are not kept."""
        write_file(documents, path, self._lines)

    def _read_file(self, report: Reporter) -> Iterator[Document]:
        for block in _blocks(report.path):
            number, line = block[0]
            header = _HEADER.fullmatch(line)
            if header is None or header[2] != "t":
                report.at(number).error(
                    "a document must begin with 'PMID|t|title'; the lines up to the next are left out"
                )
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
        for number, row in enumerate(relations, start=1):
            draft.add_relation(_relation(f"R{number}", row.columns), row.report)
        return draft.document(document_id)

    def _add_mention(self, draft: Draft, row: _Row) -> None:
        _, start, end, words, kind, *rest = row.columns
        draft.add_entity(
            row.report,
            entity_id=f"T{len(draft.entities) + 1}",
            kind=kind,
            ranges=[(int(start), int(end))],
            words=words,
            concepts=split_concepts(rest[0], self.separators) if rest else (),
        )

    def _lines(self, document: Document) -> Iterator[str]:
        check_plain("its id", document.id)
        if "|" in document.id:
            raise CorpusError("its id contains '|', which ends an id in PubTator; rename it")
        if "\r" in document.text or document.text.count("\n") > 1:
            raise CorpusError("PubTator has a title and an abstract of one line each; write it as BioC or brat")
        title, line_break, abstract = document.text.partition("\n")
        yield f"{document.id}|t|{title}"
        if line_break:
            yield f"{document.id}|a|{abstract}"
        for entity in document.entities:
            yield f"{document.id}\t{self._mention_line(entity, document.text)}"
        for relation in document.relations:
            yield f"{document.id}\t{_relation_line(relation)}"
        yield ""

    def _mention_line(self, entity: Entity, text: str) -> str:
        check_plain(f"the type of {entity.id}", entity.type)
        if entity.is_discontinuous:
            raise CorpusError(f"{entity.id} is discontinuous, which PubTator cannot hold; write it as BioC or brat")
        words = entity.text_in(text).translate(_BLANKS)
        concepts = join_concepts(entity.concepts, self.separators) or "-"
        return f"{entity.start}\t{entity.end}\t{words}\t{entity.type}\t{concepts}"


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each document; a blank line or the title of the next one ends it."""
    block: list[tuple[int, str]] = []
    for number, line in read_lines(path):
        header = _HEADER.fullmatch(line)
        if block and (not line.strip() or (header is not None and header[2] == "t")):
            yield block
            block = []
        if line.strip():
            block.append((number, line))
    if block:
        yield block


def _rows(document_id: str, lines: Iterable[tuple[int, str]], report: Reporter) -> Iterator[_Row]:
    """Yield the lines that belong to the document and have the columns of a mention or a relation."""
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
    # A seventh column names the parts of a composite mention; offsets and concepts already contain them.
    return len(columns) in (5, 6, 7) and whole_number(columns[1]) is not None and whole_number(columns[2]) is not None


def _relation(relation_id: str, columns: Sequence[str]) -> Relation:
    _, kind, head, tail, *rest = columns
    return Relation(relation_id, kind, head, tail, Level.CONCEPT, tuple((_NOVELTY, value) for value in rest))


def _relation_line(relation: Relation) -> str:
    if relation.level is not Level.CONCEPT:
        raise CorpusError(f"{relation.id} relates mentions, but PubTator relates concepts; write it as BioC or brat")
    novelty = dict(relation.attributes).get(_NOVELTY)
    columns = [relation.type, relation.head, relation.tail, *([] if novelty is None else [novelty])]
    for column in columns:
        check_plain(f"the type, a concept or the novelty of {relation.id}", column)
    if whole_number(relation.type) is not None and whole_number(relation.head) is not None:
        raise CorpusError(f"{relation.id} has a number as its type, which would be read as an offset; rename it")
    return "\t".join(columns)
