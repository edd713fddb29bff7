"""What a built-in hospital is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from wardround.text.document import Document

__all__ = ["Splits", "SyntheticSite", "visible"]


@dataclass(frozen=True, slots=True)
class Splits:
    """The documents of a hospital, parted."""

    train: tuple[Document, ...] = field(repr=False)
    dev: tuple[Document, ...] = field(repr=False)
    test: tuple[Document, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SyntheticSite:
    """A hospital that never existed: its documents annotated with its own types, and with all types."""

    name: str
    style: str
    types: tuple[str, ...]
    train: tuple[Document, ...] = field(repr=False)
    dev: tuple[Document, ...] = field(repr=False)
    test: tuple[Document, ...] = field(repr=False)
    complete: Splits = field(repr=False)  # the same documents with the annotation no hospital sees whole

    @classmethod
    def seeing(cls, types: tuple[str, ...], complete: Splits, *, name: str, style: str) -> SyntheticSite:
        """The hospital that annotates `types` in these documents."""
        train, dev, test = (
            tuple(visible(document, types) for document in documents)
            for documents in (complete.train, complete.dev, complete.test)
        )
        return cls(name, style, types, train, dev, test, complete)


def visible(document: Document, types: Collection[str]) -> Document:
    """The document with the entities of these types only, and the relations that still have both ends."""
    entities = tuple(entity for entity in document.entities if entity.type in types)
    kept = {entity.id for entity in entities}
    relations = tuple(r for r in document.relations if r.head in kept and r.tail in kept)
    return replace(document, entities=entities, relations=relations)
