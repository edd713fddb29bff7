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

from wardround.corpora.corpus_files import files_below, read_each, read_lines, write_file
from wardround.corpora.corpus_format import (
    Clue,
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
from wardround.text.document import Document, Level, Relation

__all__ = ["Pubtator"]

_HEADER = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_BLANKS = str.maketrans("\t\r\n", "   ")
_NOVELTY = "novelty"


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
    clues = (Clue((".PubTator", ".pubtator", ".txt"), "has titles and abstracts", content=r"(?m)^\d+\|t\|"),)

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
        for number, line in lines:
            here, columns = report.at(number), line.split("\t")
            offsets = [whole_number(column) for column in columns[1:3]]
            if columns[0] != document_id:
                here.error(f"is not a line of document {document_id}: it begins with another id")
            # A seventh column names the parts of a composite mention; offsets and concepts already contain them.
            elif len(columns) in (5, 6, 7) and None not in offsets:
                _, start, end, words, kind, *rest = columns
                draft.add_entity(
                    here,
                    entity_id=f"T{len(draft.entities) + 1}",
                    kind=kind,
                    ranges=[(int(start), int(end))],
                    words=words,
                    concepts=split_concepts(rest[0], self.separators) if rest else (),
                )
            elif len(columns) in (4, 5) and columns[1]:
                relations.append((columns, here))
            else:
                here.error(
                    f"has {len(columns)} columns: a mention has six with offsets in the second and third, "
                    "a relation four or five"
                )
        for number, ((_, kind, head, tail, *rest), here) in enumerate(relations, start=1):
            novelty = tuple((_NOVELTY, value) for value in rest)
            draft.add_relation(Relation(f"R{number}", kind, head, tail, Level.CONCEPT, novelty), here)
        return draft.document(document_id)

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
            check_plain(f"the type of {entity.id}", entity.type)
            if entity.is_discontinuous:
                raise CorpusError(f"{entity.id} is discontinuous, which PubTator cannot hold; write it as BioC or brat")
            words = entity.text_in(document.text).translate(_BLANKS)
            concepts = join_concepts(entity.concepts, self.separators) or "-"
            yield f"{document.id}\t{entity.start}\t{entity.end}\t{words}\t{entity.type}\t{concepts}"
        for relation in document.relations:
            if relation.level is not Level.CONCEPT:
                raise CorpusError(
                    f"{relation.id} relates mentions, but PubTator relates concepts; write it as BioC or brat"
                )
            columns = [relation.type, relation.head, relation.tail]
            columns += [value for name, value in relation.attributes if name == _NOVELTY][-1:]
            for column in columns:
                check_plain(f"the type, a concept or the novelty of {relation.id}", column)
            if whole_number(relation.type) is not None and whole_number(relation.head) is not None:
                raise CorpusError(
                    f"{relation.id} has a number as its type, which would be read as an offset; rename it"
                )
            yield "\t".join((document.id, *columns))
        yield ""


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
