"""Pairs of masked mentions in tab-separated lines, as GAD and EU-ADR are given out for relation extraction.

    index	sentence	label
    0	A variant of @GENE$ goes with @DISEASE$ in mice.	1
    1	No link of @GENE$ to @DISEASE$ was seen.	0

A file without that very header has two columns, sentence and label. `@GENE$` becomes an entity of type `Gene`, and so
for every such placeholder; of one that stands several times the first is meant, and of a sentence with one kind
alone the first two. Label 1 is a relation, 0 is none; it is also the document's attribute `label`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from wardround.corpora.draft import Reporter
from wardround.corpora.fields import is_plain
from wardround.corpora.file_names import id_of
from wardround.corpora.source import ProblemSink, fail_on_error, files_below, read_each, read_lines
from wardround.corpora.writing import write_file
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range, Relation

__all__ = ["PairTsv"]

_HEADER = "index\tsentence\tlabel"
_PLACEHOLDER = re.compile(r"@([A-Z]+)\$")
_LABEL = "label"
_LAST = "Disease"


@dataclass(frozen=True)
class PairTsv:
    """Reader and writer of masked pairs; `positive_type` is the type of the relation that label 1 says.

    The relation runs to the disease; between mentions of other types it runs in the order of the text.
    """

    positive_type: str = "association"

    def __post_init__(self) -> None:
        if not self.positive_type:
            raise UsageError("positive_type is empty: name the relation that label 1 says")

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the sentences of a file, or of every `.tsv` file below a folder; ids are `<stem>-<index>`."""
        files = files_below(path, ".tsv")
        return read_each(files, lambda file: self._read_file(id_of(file, path), Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file with header. The two mentions of each document are masked; ids are not kept."""
        indices = count()
        write_file(documents, path, lambda d: [f"{next(indices)}\t{self._row(d)}"], opening=_HEADER + "\n")

    # Reading, in calling order.

    def _read_file(self, stem: str, report: Reporter) -> Iterator[Document]:
        has_header, row = False, 0
        for number, line in read_lines(report.path):
            if number == 1 and line == _HEADER:
                has_header = True
            elif line.strip():
                columns = line.split("\t") if has_header else [str(row), *line.split("\t")]
                yield from self._documents(stem, columns, report.at(number))
                row += 1

    def _documents(self, stem: str, columns: list[str], report: Reporter) -> Iterator[Document]:
        """The one document of the line, or none where the line does not fit."""
        if len(columns) != 3:
            report.error("does not have the columns of the file: sentence and label, led by an index under a header")
        elif columns[2] not in ("0", "1"):
            report.error("the label is neither 0 nor 1; the line is left out")
        elif len(entities := _entities(columns[1])) < 2:
            report.error("the sentence does not hold two placeholders such as @GENE$; the line is left out")
        else:
            yield self._document(f"{stem}-{columns[0]}", columns[1], entities, label=columns[2])

    def _document(self, document_id: str, text: str, entities: tuple[Entity, ...], *, label: str) -> Document:
        head, tail, *_ = sorted(entities, key=lambda entity: (entity.type == _LAST, entity.start))
        relations = (Relation("R1", self.positive_type, head.id, tail.id),) if label == "1" else ()
        return Document(document_id, text, entities, relations, attributes=((_LABEL, label),))

    # Writing, in calling order.

    def _row(self, document: Document) -> str:
        if not is_plain(document.text):
            raise CorpusError("its text holds a tab or a line end; write its sentences one by one")
        label = self._label(document)
        text, ranges = _masked(document)
        read_back = _entities(text)
        if [entity.envelope for entity in read_back] != ranges:
            raise CorpusError("an earlier placeholder in its text would be taken for a mention; rename it")
        expected = self._document(document.id, text, read_back, label=label).relations
        names = {entity.id: found.id for entity, found in zip(_in_order(document), read_back, strict=True)}
        if [(r.type, r.head, r.tail) for r in expected] != [
            (r.type, names.get(r.head), names.get(r.tail)) for r in document.relations
        ]:
            raise CorpusError(f"its relation is not one {self.positive_type!r} that runs to the disease")
        return f"{text}\t{label}"

    def _label(self, document: Document) -> str:
        label = "1" if document.relations else "0"
        if dict(document.attributes).get(_LABEL, label) != label:
            raise CorpusError("its attribute label and its relations contradict each other; correct one")
        return label


def _entities(sentence: str) -> tuple[Entity, ...]:
    found = list(_PLACEHOLDER.finditer(sentence))
    firsts = {match[1]: match for match in reversed(found)}
    chosen = sorted(firsts.values(), key=lambda match: match.start()) if len(firsts) > 1 else found[:2]
    return tuple(
        Entity(f"T{number}", match[1].capitalize(), (Range(*match.span()),))
        for number, match in enumerate(chosen, start=1)
    )


def _in_order(document: Document) -> list[Entity]:
    return sorted(document.entities, key=lambda entity: entity.start)


def _masked(document: Document) -> tuple[str, list[Range]]:
    """The text with placeholders for its mentions, and where those lie."""
    entities = _in_order(document)
    if len(entities) != 2 or any(entity.is_discontinuous for entity in entities) or entities[0].overlaps(entities[1]):
        raise CorpusError("needs two mentions of one piece each that do not overlap; write it as BioC or brat")
    text, ranges, position = "", [], 0
    for entity in entities:
        placeholder = f"@{entity.type.upper()}$"
        if not _PLACEHOLDER.fullmatch(placeholder) or entity.type != entity.type.capitalize():
            raise CorpusError(f"the type of {entity.id} is not one capitalised word such as Gene; rename it")
        text += document.text[position : entity.start]
        ranges.append(Range(len(text), len(text) + len(placeholder)))
        text += placeholder
        position = entity.end
    return text + document.text[position:], ranges
