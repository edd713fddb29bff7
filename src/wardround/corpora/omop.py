"""OMOP CDM 5.4, table NOTE_NLP: one row for each mention, as CSV or, if the file is called `.parquet`, as parquet.

    note_nlp_id,note_id,…,snippet,offset,lexical_variant,…,term_exists,term_temporal,term_modifiers
    1,4711,…,No rash after lunarol,3,rash,…,N,,"type=ADE,score=0.9123,negated=true"
    2,4711,…,No rash after lunarol,14,lunarol,…,Y,,"type=Drug,score=0.9987,negated=false"
    3,4712,…,Fever as a child.,0,Fever,…,Y,past,"type=Finding,negated=false,historical=true"
    4,4712,…,Mother has asthma.,11,asthma,…,N,,"type=Disease,experiencer=other"

The id of a note must be the number of its row in NOTE. Concepts of a terminology other than OMOP's are modifiers:
`note_nlp_concept_id` is 0 until they are mapped. `term_exists` follows from the attributes of a mention about its
assertion, and is empty if there are none: nothing then says whether the patient has what is mentioned.
"""

from __future__ import annotations

import csv
import datetime as dates
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from wardround.corpora.corpus_files import open_for_writing
from wardround.corpora.corpus_format import Content, CorpusFormat, ProblemSink, fail_on_error
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity

__all__ = ["COLUMNS", "Omop"]

# Names and whether the column holds whole numbers, in the order of the specification.
COLUMNS = {
    "note_nlp_id": True,
    "note_id": True,
    "section_concept_id": True,
    "snippet": False,
    "offset": False,
    "lexical_variant": False,
    "note_nlp_concept_id": True,
    "note_nlp_source_concept_id": True,
    "nlp_system": False,
    "nlp_date": False,
    "nlp_datetime": False,
    "term_exists": False,
    "term_temporal": False,
    "term_modifiers": False,
}
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_AROUND = 60  # characters of the note before and after a mention in its snippet
_LONGEST = 250  # characters of `snippet` and `lexical_variant`
_LONGEST_MODIFIERS = 2_000
_ROWS_AT_ONCE = 10_000
# Attributes about assertion, and the values that mean that the patient does not have, or may not have, what is named.
_DENYING = {
    "negated": {"true"},
    "uncertain": {"true"},
    "hypothetical": {"true"},
    "experiencer": {"other"},
    "assertion": {"absent", "possible", "conditional", "hypothetical", "associated_with_someone_else"},
}
_AFFIRMING = {"negated", "assertion"}  # with one of these, a mention that is not denied exists


@dataclass(frozen=True)
class Omop(CorpusFormat):
    """Writer of NOTE_NLP. `date` is that of the predictions, by default today."""

    name = "omop"
    description = "– (NOTE_NLP is only written)"
    ending = ".csv"
    holds = frozenset[Content]({"entities", "discontinuous", "concepts", "attributes"})

    date: str = "today"  # or a day such as 2025-03-31

    def __post_init__(self) -> None:
        try:
            self._day()
        except ValueError:
            raise UsageError(f"the date {self.date!r} is not a day such as 2025-03-31") from None

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Raise `UsageError`: the table has no texts of notes."""
        raise UsageError("the format omop can only be written: its table does not have the texts of the notes")

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one CSV file, or one parquet file if it is called so."""
        numbers = count(1)
        rows = (row for document in documents for row in self._rows(document, numbers))
        if path.suffix == ".parquet":
            _write_parquet(rows, path)
            return
        with open_for_writing(path) as stream:
            stream.write(_csv_line(COLUMNS))
            for row in rows:
                stream.write(_csv_line("" if value is None else value for value in row.values()))

    def _day(self) -> dates.date:
        if self.date == "today":
            return dates.datetime.now(dates.UTC).date()
        return dates.date.fromisoformat(self.date)

    def _rows(self, document: Document, numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
        if not _WHOLE_NUMBER.fullmatch(document.id):
            raise CorpusError("a note has an id that is not a number; OMOP needs the note_id of its row in NOTE")
        for entity in document.entities:
            around = document.text[max(0, entity.start - _AROUND) : entity.end + _AROUND]
            yield {
                "note_nlp_id": next(numbers),
                "note_id": int(document.id),
                "section_concept_id": 0,
                "snippet": around[:_LONGEST],
                "offset": str(entity.start),
                "lexical_variant": entity.text_in(document.text)[:_LONGEST],
                "note_nlp_concept_id": 0,
                "note_nlp_source_concept_id": 0,
                "nlp_system": "wardround",
                "nlp_date": self._day().isoformat(),
                "nlp_datetime": None,
                "term_exists": _exists(entity),
                "term_temporal": "past" if ("historical", "true") in entity.attributes else None,
                "term_modifiers": _modifiers(entity),
            }


def _exists(entity: Entity) -> str | None:
    if any(value in _DENYING.get(name, ()) for name, value in entity.attributes):
        return "N"
    return "Y" if any(name in _AFFIRMING for name, _ in entity.attributes) else None


def _modifiers(entity: Entity) -> str:
    """Return `name=value` pairs, with other characters in the place of their separators."""
    score = [] if entity.score is None else [("score", f"{entity.score:.4f}")]
    concepts = [("concept", concept) for concept in entity.concepts]
    pairs = [("type", entity.type), *score, *concepts, *entity.attributes]
    plain = (f"{name}={value}".translate({ord(","): ";"}) for name, value in pairs)
    return ",".join(plain)[:_LONGEST_MODIFIERS]


def _csv_line(values: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise UsageError("a parquet file needs pyarrow: pip install 'wardround[parquet]'; or write .csv") from None
    schema = pyarrow.schema(
        [(name, pyarrow.int64() if is_number else pyarrow.string()) for name, is_number in COLUMNS.items()]
    )
    partial = path.with_name(path.name + ".partial")
    try:
        with parquet.ParquetWriter(partial, schema) as writer:
            while batch := list(islice(rows, _ROWS_AT_ONCE)):
                writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
        partial.replace(path)
    except OSError as error:
        raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
    finally:
        partial.unlink(missing_ok=True)
