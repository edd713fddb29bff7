"""Tables of the contents of a corpus: by part, and by type of entity and relation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from wardround.reports.tables import Cell, Row, Table

__all__ = ["CorpusCounts", "corpus_tables"]


class CorpusCounts(Protocol):
    """The counts of one part of a corpus."""

    @property
    def documents(self) -> int:
        """Return the number of documents."""

    @property
    def sentences(self) -> int:
        """Return the number of sentences in documents that come with sentences."""

    @property
    def words(self) -> int:
        """Return the number of words in documents that come with words."""

    @property
    def with_sentences(self) -> int:
        """Return the number of documents that come with sentences."""

    @property
    def with_words(self) -> int:
        """Return the number of documents that come with words."""

    @property
    def entities(self) -> Mapping[str, int]:
        """Return the number of entities by type."""

    @property
    def relations(self) -> Mapping[str, int]:
        """Return the number of relations by type."""

    @property
    def mean_length(self) -> float:
        """Return the mean number of characters in a document."""

    def total(self, kind: str) -> int:
        """Return one of the counts by its name, summed over types."""


def corpus_tables(counts: Mapping[str, CorpusCounts], *, title: str = "Corpus") -> tuple[Table, ...]:
    """Return a table of each part's counts, and a table by type for entities and for relations, if there are any.

    Sentences and words are left out if no note comes with them.
    """
    parts = list(counts.values())

    def row(name: str, *cells: Cell) -> Row:
        return (name, *cells)

    rows = [row("documents", *(part.documents for part in parts))]
    if any(part.with_sentences for part in parts):
        rows.append(row("sentences", *(part.sentences if part.with_sentences else None for part in parts)))
    if any(part.with_words for part in parts):
        rows.append(row("words", *(part.words if part.with_words else None for part in parts)))
    rows += [row(kind, *(part.total(kind) for part in parts)) for kind in ("entities", "discontinuous", "relations")]
    rows.append(row("characters per document", *(round(part.mean_length) for part in parts)))
    tables = [Table(title, ("", *counts), tuple(rows))]
    for what, by_part in (("Entities", [p.entities for p in parts]), ("Relations", [p.relations for p in parts])):
        kinds = sorted({kind for by_type in by_part for kind in by_type})
        if kinds:
            by_type = tuple(row(kind, *(found.get(kind, 0) for found in by_part)) for kind in kinds)
            tables.append(Table(f"{what} by type", ("type", *counts), by_type))
    return tuple(tables)
