r"""JSON lines: a document a line, in our own shape, which keeps everything, or in that of another tool.

    wardround  {"id": "n1", "text": "Aspirin burns", "entities": [{"id": "T1", "type": "Drug", "ranges": [[0, 7]]}]}
    prodigy    {"text": "Aspirin burns", "spans": [{"start": 0, "end": 7, "label": "Drug"}]}
    spacy      ["Aspirin burns", {"entities": [[0, 7, "Drug"]]}]
    doccano    {"text": "Aspirin burns", "label": [[0, 7, "Drug"]]}
    presidio   [{"full_text": "Call Ann", "spans": [{"entity_type": "PERSON", "start_position": 5, ...}]}, ...]

Offsets count Unicode code points. The last shape is one JSON array a file, is loaded whole, and is only read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wardround.corpora.draft import Reporter
from wardround.corpora.file_names import id_of
from wardround.corpora.json_shapes import READERS, WRITERS, Unfit
from wardround.corpora.source import (
    BYTE_ORDER_MARK,
    ProblemSink,
    check_choice,
    fail_on_error,
    files_below,
    read_each,
    read_lines,
    read_text,
)
from wardround.corpora.writing import write_file
from wardround.errors import TextError, UsageError
from wardround.text.document import Document

__all__ = ["Jsonl", "ShapeName"]

ShapeName = Literal["wardround", "prodigy", "spacy", "doccano", "presidio"]

_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Jsonl:
    """Reader and writer of JSON lines. Documents without an id of their own are called `<stem>:<line>`."""

    shape: ShapeName = "wardround"

    def __post_init__(self) -> None:
        check_choice("shape", self.shape, ShapeName)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of every `.jsonl` (presidio: `.json`) file below a folder."""
        ending = ".json" if self.shape == "presidio" else ".jsonl"
        files = files_below(path, ending)
        return read_each(files, lambda file: self._read_file(id_of(file, path), Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file. What the shape cannot hold without bending it is a `CorpusError`."""
        if self.shape not in WRITERS:
            raise UsageError(f"the shape {self.shape!r} is only read; write {', '.join(WRITERS)}")
        as_value = WRITERS[self.shape]
        write_file(documents, path, lambda document: [json.dumps(as_value(document), ensure_ascii=False)])

    def _read_file(self, stem: str, report: Reporter) -> Iterator[Document]:
        for number, value, place in self._values(report):
            try:
                document = READERS[self.shape](value, f"{stem}:{number}", place)
            except (Unfit, TextError) as error:
                place.error(str(error))
                continue
            if document is not None:
                yield document

    def _values(self, report: Reporter) -> Iterator[tuple[int, object, Reporter]]:
        """Each document as parsed JSON, its number, and the place it came from."""
        if self.shape == "presidio":
            yield from _array(report)
            return
        for number, line in read_lines(report.path):
            if line.strip():
                for value in _parsed(line, report.at(number)):
                    yield number, value, report.at(number)


def _array(report: Reporter) -> Iterator[tuple[int, object, Reporter]]:
    for value in _parsed(read_text(report.path).removeprefix(BYTE_ORDER_MARK), report):
        if not isinstance(value, list):
            report.error("is not one JSON array")
            return
        for number, item in enumerate(value, start=1):
            yield number, item, Reporter(report.path, report.problems, item=f"item {number}: ")


def _parsed(content: str, report: Reporter) -> Iterator[object]:
    """The value, or nothing where it is faulty."""
    try:
        value = json.loads(content)
        if _HALF_A_PAIR.search(content):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        report.error("holds half a surrogate pair, which is no character")
    except (ValueError, RecursionError):
        report.error("is not JSON")
    else:
        yield value
