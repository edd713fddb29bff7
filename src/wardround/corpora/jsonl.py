r"""JSON lines: one document on each line, in our own shape, which keeps everything, or in that of another tool.

    wardround  {"id": "n1", "text": "Aspirin burns", "entities": [{"id": "T1", "type": "Drug", "ranges": [[0, 7]]}]}
    prodigy    {"text": "Aspirin burns", "spans": [{"start": 0, "end": 7, "label": "Drug"}]}
    spacy      ["Aspirin burns", {"entities": [[0, 7, "Drug"]]}]
    doccano    {"text": "Aspirin burns", "label": [[0, 7, "Drug"]]}
    presidio   [{"full_text": "Call Ann", "spans": [{"entity_type": "PERSON", "start_position": 5, ...}]}, ...]

Offsets count Unicode code points. A file of the last shape is one JSON array; it is read into memory and cannot be
written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wardround.corpora.corpus_files import (
    BYTE_ORDER_MARK,
    files_below,
    id_of,
    read_each,
    read_lines,
    read_text,
    write_file,
)
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    LineCodec,
    ProblemSink,
    Reporter,
    check_choice,
    fail_on_error,
)
from wardround.corpora.json_shapes import HOLDS, READERS, WRITERS, ShapeError, refuse_other_shape
from wardround.errors import TextError, UsageError
from wardround.text.document import Document

__all__ = ["Jsonl", "ShapeName"]

ShapeName = Literal["wardround", "prodigy", "spacy", "doccano", "presidio"]

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Jsonl(CorpusFormat):
    """Reader and writer of JSON lines. A document without an id gets the id `<stem>:<line>`."""

    name = "jsonl"
    description = "`.jsonl`, one document on each line (`presidio`: `.json`, one array)"
    ending = ".jsonl"

    clues = (
        Clue((".jsonl",), "has lines with `ranges` of `entities`", content=r'"entities": ?\[(?:\{[^}]*"ranges"|\])'),
        Clue((".jsonl",), "has `spans`", content=r'(?m)^\{.*"spans": ?\[', options={"shape": "prodigy"}),
        Clue((".jsonl",), "has pairs of text and entities", content=r'^\[ ?"', options={"shape": "spacy"}),
        Clue(
            (".jsonl",),
            "has `label`",
            content=r'"labels?": ?\[|"start_offset"',
            options={"shape": "doccano"},
        ),
        Clue((".json",), "has `full_text`", content=r'^\s*\[\s*\{[^}]*"full_text"', options={"shape": "presidio"}),
        Clue((".jsonl",), "has lines of JSON without annotations"),
    )

    shape: ShapeName = "wardround"

    def __post_init__(self) -> None:
        check_choice("shape", self.shape, ShapeName)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of each `.jsonl` (presidio: `.json`) file below a folder."""
        ending = ".json" if self.shape == "presidio" else ".jsonl"
        files = files_below(path, ending)
        return read_each(files, lambda file: self._read_file(id_of(file, path), Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file; raise `CorpusError` for a document that the shape cannot represent."""
        if not self.can_write:
            raise UsageError(f"the shape {self.shape!r} can only be read; choose one of {', '.join(WRITERS)}")
        write_file(documents, path, lambda document: [self._encode_line(document)])

    @property
    def holds(self) -> frozenset[Content]:
        """The parts of a document that the shape can represent."""
        return HOLDS[self.shape]

    @property
    def can_write(self) -> bool:
        """True for all shapes except presidio."""
        return self.shape in WRITERS

    @property
    def line_codec(self) -> LineCodec:
        """The codec between a document and one line of JSON."""
        return LineCodec(self._decode_line, self._encode_line)

    def _encode_line(self, document: Document) -> str:
        return json.dumps(WRITERS[self.shape](document), ensure_ascii=False)

    def _decode_line(self, line: str, document_id: str, report: Reporter) -> Document | None:
        try:
            value = _parse(line)
        except ShapeError as error:
            report.error(str(error))
            return None
        return self._decode(value, document_id, report)

    def _decode(self, value: object, document_id: str, report: Reporter) -> Document | None:
        try:
            refuse_other_shape(value, self.shape)
            return READERS[self.shape](value, document_id, report)
        except (ShapeError, TextError) as error:
            report.error(str(error))
            return None

    def _read_file(self, stem: str, report: Reporter) -> Iterator[Document]:
        if self.shape != "presidio":
            for number, line in read_lines(report.path):
                if line.strip():
                    document = self._decode_line(line, f"{stem}:{number}", report.at(number))
                    if document is not None:
                        yield document
            return
        try:
            items = _parse(read_text(report.path).removeprefix(BYTE_ORDER_MARK))
        except ShapeError as error:
            report.error(str(error))
            return
        if not isinstance(items, list):
            report.error("is not one JSON array")
            return
        for number, item in enumerate(items, start=1):
            place = Reporter(report.path, report.problems, item=f"item {number}: ")
            document = self._decode(item, f"{stem}:{number}", place)
            if document is not None:
                yield document


def _parse(content: str) -> object:
    """Return the JSON value; raise `ShapeError` if the content is not valid JSON."""
    try:
        value: object = json.loads(content)
        if _SURROGATE.search(content):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ShapeError("contains half a surrogate pair, which is not a character") from None
    except (ValueError, RecursionError):
        raise ShapeError("is not JSON") from None
    return value
