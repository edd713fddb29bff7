"""Counts of the contents of a corpus; they can be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wardround.text.document import Document, Entity, Relation

__all__ = ["Counts", "Tally", "count"]


@dataclass(frozen=True)
class Counts:
    """Counts of one split, or of a whole corpus."""

    documents: int = 0
    characters: int = 0
    sentences: int = 0  # of the documents that come with sentences; `with_sentences` is their number
    words: int = 0
    with_sentences: int = 0
    with_words: int = 0
    entities: Counter[str] = field(default_factory=Counter)  # by type
    discontinuous: Counter[str] = field(default_factory=Counter)  # by type
    relations: Counter[str] = field(default_factory=Counter)  # by type
    concepts: int = 0
    attributes: int = 0  # of documents, entities and relations
    notes: int = 0

    @classmethod
    def of(cls, document: Document) -> Counts:
        """Count the contents of one document."""
        owners: tuple[Document | Entity | Relation, ...] = (document, *document.entities, *document.relations)
        return cls(
            documents=1,
            characters=len(document.text),
            sentences=len(document.sentences or ()),
            words=len(document.words or ()),
            with_sentences=int(document.sentences is not None),
            with_words=int(document.words is not None),
            entities=Counter(entity.type for entity in document.entities),
            discontinuous=Counter(entity.type for entity in document.entities if entity.is_discontinuous),
            relations=Counter(relation.type for relation in document.relations),
            concepts=sum(len(entity.concepts) for entity in document.entities),
            attributes=sum(len(owner.attributes) for owner in owners),
            notes=sum(bool(entity.note) for entity in document.entities),
        )

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def total(self, kind: str) -> int:
        """Return one of the counts by its name, summed over types."""
        found: int | Counter[str] = getattr(self, kind)
        return found if isinstance(found, int) else found.total()

    @property
    def mean_length(self) -> float:
        """Mean number of characters in a document."""
        return self.characters / self.documents if self.documents else 0.0


class Tally:
    """Count documents while they are iterated."""

    def __init__(self) -> None:
        self.counts = Counts()

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield the same documents and count them."""
        for document in documents:
            self.counts += Counts.of(document)
            yield document


def count(documents: Iterable[Document]) -> Counts:
    """Count documents one at a time."""
    return sum(map(Counts.of, documents), Counts())
