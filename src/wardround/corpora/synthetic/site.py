"""What a built-in hospital is."""

from __future__ import annotations

from dataclasses import dataclass, field

from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = ["Splits", "SyntheticSite"]


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
            tuple(map(TagSet(types).restrict, documents)) for documents in (complete.train, complete.dev, complete.test)
        )
        return cls(name, style, types, train, dev, test, complete)
