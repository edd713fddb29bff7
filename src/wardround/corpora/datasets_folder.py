"""Hugging Face datasets on disk: parquet files, or the arrow files that `save_to_disk` writes.

    id   tokens                        ner_tags
    "0"  ["Aspirin", "burns", "."]     [1, 0, 0]     with the names of the tags in the schema
    "1"  ["No", "fever", "."]          ["O", "B-Symptom", "O"]

    id   text               entities
    "0"  "Aspirin burns ."  [{"start": 0, "end": 7, "label": "Drug"}]

The words of a row are joined by one space. The library is needed: `pip install 'wardround[parquet]'`. It is imported
only when such a file is read or written. Nothing is downloaded, and a loading script in the folder is never run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from wardround.corpora.conll import SchemeName
from wardround.corpora.corpus_files import MAXIMUM_FILE, files_below, id_of, read_each
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    check_choice,
    fail_on_error,
)
from wardround.errors import CorpusError, TagError, UsageError
from wardround.parsing import is_integer, parse_json
from wardround.text.document import Document, Range
from wardround.text.tag_schemes import SCHEMES

__all__ = ["DatasetsFolder"]

_ROWS = 256  # that are in memory at once
_ENDINGS = (".parquet", ".arrow")
_START, _END, _LABEL = ("start", "start_offset", "begin"), ("end", "end_offset"), ("label", "type", "entity_type")


@dataclass(frozen=True)
class DatasetsFolder(CorpusFormat):
    """Reader of parquet and arrow files, and writer of parquet. The options are the names of columns.

    A file with the column `tokens` has words with tags; any other one has a text with entities as objects with start,
    end and label. `scheme` is that of the tags.
    """

    name = "datasets"
    description = "Hugging Face datasets on disk: `.parquet`, or `.arrow` as `save_to_disk` writes"
    ending = ".parquet"
    holds = frozenset[Content]({"entities", "words"})
    clues = (Clue(_ENDINGS, "is a file of a dataset"),)

    tokens: str = "tokens"
    tags: str = "ner_tags"
    text: str = "text"
    entities: str = "entities"
    id: str = "id"
    scheme: SchemeName = "BIO"

    def __post_init__(self) -> None:
        check_choice("scheme", self.scheme, SchemeName)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the rows of a file, or of each file below a folder; a row without id is `<stem>:<number>`."""
        # The library `datasets` leaves results of earlier operations beside the rows.
        files = [file for file in files_below(path, *_ENDINGS) if not file.name.startswith("cache-")]
        return read_each(files, lambda file: self._read_file(id_of(file, path), Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one parquet file with id, text and entities. Only continuous entities can be written."""
        arrow = _pyarrow()
        entity = arrow.struct([("start", arrow.int64()), ("end", arrow.int64()), (_LABEL[0], arrow.string())])
        schema = arrow.schema(
            [(self.id, arrow.string()), (self.text, arrow.string()), (self.entities, arrow.list_(entity))]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial, remaining = path.with_name(path.name + ".partial"), iter(documents)
        try:
            with arrow.parquet.ParquetWriter(partial, schema) as writer:
                while rows := [self._row(document, path) for document in islice(remaining, _ROWS)]:
                    writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            partial.replace(path)
        except UnicodeEncodeError:
            raise CorpusError("cannot be written: a text contains half a surrogate pair", path=path) from None
        except OSError as error:
            raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
        finally:
            partial.unlink(missing_ok=True)

    def _row(self, document: Document, path: Path) -> dict[str, Any]:
        for entity in document.entities:
            if entity.is_discontinuous:
                raise CorpusError(
                    f"document {document.id!r}: {entity.id} is discontinuous, which a row cannot hold; "
                    "write it as brat or jsonl",
                    path=path,
                )
        found = [{"start": e.start, "end": e.end, _LABEL[0]: e.type} for e in document.entities]
        return {self.id: document.id, self.text: document.text, self.entities: found}

    def _read_file(self, stem: str, report: Reporter) -> Iterator[Document]:
        arrow = _pyarrow()
        number = 0
        try:
            with report.path.open("rb") as stream:
                schema, batches = _open(arrow, report.path, stream)
                names = _names_of_tags(schema, self.tags)
                if self.tokens not in schema.names and self.text not in schema.names:
                    raise CorpusError(
                        f"has neither a column {self.tokens!r} nor {self.text!r}, but {', '.join(schema.names)}; "
                        "--option tokens=NAME or text=NAME names another one",
                        path=report.path,
                    )
                known = [c for c in (self.tokens, self.tags, self.text, self.entities, self.id) if c in schema.names]
                for batch in batches:
                    batch.validate(full=True)  # a damaged file may refer to memory outside it
                    for row in batch.select(known).to_pylist():
                        number += 1
                        place = Reporter(report.path, report.problems, item=f"row {number}: ")
                        document = self._document(row, f"{stem}:{number}", names, place)
                        if document is not None:
                            yield document
        except (arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            # The library's own message may quote a value.
            raise CorpusError(
                f"is not a parquet or arrow file, or is damaged ({type(error).__name__})", path=report.path
            ) from None

    def _document(self, row: Mapping[str, Any], name: str, names: Sequence[str], report: Reporter) -> Document | None:
        own = row.get(self.id)
        document_id = str(own) if is_integer(own) or (isinstance(own, str) and own) else name
        if row.get(self.tokens) is not None:
            return self._from_tokens(row, document_id, names, report)
        text, found = row.get(self.text), row.get(self.entities)
        if not isinstance(text, str):
            report.error(f"the column {self.text!r} has no text; left out")
            return None
        if found is not None and not isinstance(found, list):
            report.error(f"the column {self.entities!r} is not a list of entities")
            found = None
        draft = Draft(text)
        for number, item in enumerate(found or (), start=1):
            start, end, label = (_first(item, keys) for keys in (_START, _END, _LABEL))
            if not is_integer(start) or not is_integer(end) or not isinstance(label, str):
                report.error(f"entity {number} has no start, end and label; left out")
            else:
                draft.add_entity(report, entity_id=f"T{number}", kind=label, ranges=[(start, end)])
        return draft.document(document_id)

    def _from_tokens(
        self, row: Mapping[str, Any], document_id: str, names: Sequence[str], report: Reporter
    ) -> Document | None:
        words, tags = row[self.tokens], row.get(self.tags)
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            report.error(f"the column {self.tokens!r} is not a list of words; left out")
            return None
        ranges, end = [], -1
        for word in words:
            ranges.append(Range(end + 1, end + 1 + len(word)))
            end = ranges[-1].end
        draft = Draft(" ".join(words))
        try:
            labels = _tags(tags, names, len(words))
            SCHEMES[self.scheme].repair(labels)
            spans = SCHEMES[self.scheme].spans(labels)
        except TagError:
            # Do not quote the tag: if the column is wrong, it is a word of the note.
            report.error(
                f"the column {self.tags!r} has no {self.scheme} tag for each word, or numbers without names in the "
                "schema; read without entities"
            )
            spans = []
        for number, (first, last, kind) in enumerate(spans, start=1):
            span = (ranges[first].start, ranges[last - 1].end)
            draft.add_entity(report, entity_id=f"T{number}", kind=kind, ranges=[span])
        return draft.document(document_id, words=ranges)


def _pyarrow() -> Any:
    """Return the library, or raise a `UsageError` that says how to install it."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise UsageError("the format datasets needs pyarrow: pip install 'wardround[parquet]'") from None
    return pyarrow


def _open(arrow: Any, path: Path, stream: Any) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a file and its rows in batches."""
    if path.name.endswith(".parquet"):
        file = arrow.parquet.ParquetFile(stream)
        size = sum(file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups))
        if size > MAXIMUM_FILE:
            raise CorpusError(f"is longer than {MAXIMUM_FILE:,} bytes when decompressed; split it", path=path)
        return file.schema_arrow, file.iter_batches(batch_size=_ROWS)
    # Read at once, because the library allocates whatever size a damaged file claims when it reads from a stream.
    data = stream.read(MAXIMUM_FILE + 1)
    if len(data) > MAXIMUM_FILE:
        raise CorpusError(f"is longer than {MAXIMUM_FILE:,} bytes; split it", path=path)
    reader = arrow.ipc.open_stream(arrow.BufferReader(data))  # as `save_to_disk` writes
    return reader.schema, iter(reader)


def _names_of_tags(schema: Any, column: str) -> tuple[str, ...]:
    """Return the names of the classes of a column, which the library `datasets` stores beside the schema."""
    try:
        stored = parse_json((schema.metadata or {}).get(b"huggingface", b"{}"))
        feature = stored["info"]["features"][column]
        names = feature.get("feature", feature)["names"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def _tags(tags: Any, names: Sequence[str], count: int) -> list[str]:
    """Return the tags of a row as text; raise `TagError` if they are not one for each word."""
    if not isinstance(tags, list) or len(tags) != count:
        raise TagError("the tags are not one for each word")
    found = []
    for tag in tags:
        if is_integer(tag) and 0 <= tag < len(names):
            found.append(names[tag])
        elif isinstance(tag, str):
            found.append(tag)
        else:
            raise TagError("a tag has no name")
    return found


def _first(item: Any, keys: Iterable[str]) -> Any:
    """Return the value of the first of the keys that an object has."""
    return next((item[key] for key in keys if key in item), None) if isinstance(item, dict) else None
