"""Pairs of masked mentions in tab-separated lines, the form of GAD and EU-ADR for relation extraction.

    index	sentence	label
    0	A variant of @GENE$ goes with @DISEASE$ in mice.	1
    1	No link of @GENE$ to @DISEASE$ was seen.	0
    2	@DISEASE$ is rare in carriers of @GENE$.	1
    3	Neither @GENE$ nor @DISEASE$ was studied.	0

A file without this header has two columns, sentence and label. A placeholder such as `@GENE$` becomes an entity of type
`Gene`. Only the first of several equal placeholders counts; if all are equal, the first two count. Label 1 is a
relation, 0 is none; the label is also the document's attribute `label`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from wardround.corpora.corpus_files import files_below, id_of, read_each, read_lines, write_file
from wardround.corpora.corpus_format import Clue, Content, CorpusFormat, ProblemSink, Reporter, fail_on_error, is_plain
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range, Relation

__all__ = ["PairTsv"]

_HEADER = "index\tsentence\tlabel"
_PLACEHOLDER = re.compile(r"@([A-Z]+)\$")
_LABEL = "label"
_LAST = "Disease"


@dataclass(frozen=True)
class PairTsv(CorpusFormat):
    """Reader and writer of masked pairs; `positive_type` is the relation type for label 1.

    The tail of the relation is the disease; without a disease, head and tail are in the order of the text.
    """

    name = "pairs"
    description = "`.tsv` of masked pairs, as GAD and EU-ADR"
    ending = ".tsv"
    holds = frozenset[Content]({"entities", "relations", "attributes"})
    clues = (Clue((".tsv",), "has masked pairs such as @GENE$", content=r"(?m)@[A-Z]+\$.*\t[01]\r?$"),)

    positive_type: str = "association"

    def __post_init__(self) -> None:
        if not self.positive_type:
            raise UsageError("positive_type is empty: name the relation type for label 1")

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the sentences of a file, or of each `.tsv` file below a folder; ids are `<stem>-<index>`."""
        files = files_below(path, ".tsv")
        return read_each(files, lambda file: self._read_file(id_of(file, path), Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file with a header. The two mentions of each document are masked; ids are not kept."""
        indices = count()
        write_file(documents, path, lambda d: [f"{next(indices)}\t{self._row(d)}"], opening=_HEADER + "\n")

    def _read_file(self, stem: str, report: Reporter) -> Iterator[Document]:
        has_header, row = False, 0
        for number, line in read_lines(report.path):
            if number == 1 and line == _HEADER:
                has_header = True
            elif line.strip():
                columns = line.split("\t") if has_header else [str(row), *line.split("\t")]
                here = report.at(number)
                if len(columns) != 3:
                    here.error(
                        "does not have the columns of the file: sentence and label, after an index if there is a header"
                    )
                elif columns[2] not in ("0", "1"):
                    here.error("the label is neither 0 nor 1; the line is left out")
                elif len(entities := _entities(columns[1])) < 2:
                    here.error("the sentence does not contain two placeholders such as @GENE$; the line is left out")
                else:
                    yield self._document(f"{stem}-{columns[0]}", columns[1], entities, label=columns[2])
                row += 1

    def _document(self, document_id: str, text: str, entities: tuple[Entity, ...], *, label: str) -> Document:
        head, tail, *_ = sorted(entities, key=lambda entity: (entity.type == _LAST, entity.start))
        relations = (Relation("R1", self.positive_type, head.id, tail.id),) if label == "1" else ()
        return Document(document_id, text, entities, relations, attributes=((_LABEL, label),))

    def _row(self, document: Document) -> str:
        if not is_plain(document.text):
            raise CorpusError("its text contains a tab or a line end; write each sentence as a document")
        label = "1" if document.relations else "0"
        if dict(document.attributes).get(_LABEL, label) != label:
            raise CorpusError("its attribute label and its relations contradict each other; correct one")
        mentions = sorted(document.entities, key=lambda entity: entity.start)
        text, ranges = _masked(document, mentions)
        read_back = _entities(text)
        if [entity.envelope for entity in read_back] != ranges:
            raise CorpusError("an earlier placeholder in its text would be read as a mention; rename it")
        expected = self._document(document.id, text, read_back, label=label).relations
        names = {entity.id: found.id for entity, found in zip(mentions, read_back, strict=True)}
        if [(r.type, r.head, r.tail) for r in expected] != [
            (r.type, names.get(r.head), names.get(r.tail)) for r in document.relations
        ]:
            raise CorpusError(f"its relation is not a single {self.positive_type!r} with the disease as its tail")
        return f"{text}\t{label}"


def _entities(sentence: str) -> tuple[Entity, ...]:
    found = list(_PLACEHOLDER.finditer(sentence))
    firsts = {match[1]: match for match in reversed(found)}
    chosen = sorted(firsts.values(), key=lambda match: match.start()) if len(firsts) > 1 else found[:2]
    return tuple(
        Entity(f"T{number}", match[1].capitalize(), (Range(*match.span()),))
        for number, match in enumerate(chosen, start=1)
    )


def _masked(document: Document, entities: Sequence[Entity]) -> tuple[str, list[Range]]:
    """Return the text with placeholders for its mentions, which are in order, and the ranges of the placeholders."""
    if len(entities) != 2 or any(entity.is_discontinuous for entity in entities) or entities[0].overlaps(entities[1]):
        raise CorpusError("needs two continuous mentions that do not overlap; write it as BioC or brat")
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
