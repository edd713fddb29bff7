"""Tag sets: which entity types a site annotates, and under which names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from wardround.errors import TextError
from wardround.text.document import Document, Level, Relation
from wardround.text.tag_schemes import TagScheme

__all__ = ["TagSet"]


@dataclass(frozen=True)
class TagSet:
    """The entity types a site annotates, in a fixed order. A type that is not here was not looked for."""

    types: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.types)) != len(self.types):
            raise TextError(f"a tag set names a type twice: {', '.join(self.types)}")
        if not all(self.types):
            raise TextError("a tag set holds a type without a name")

    @classmethod
    def of(cls, documents: Iterable[Document]) -> TagSet:
        """The types that occur in `documents`, in alphabetical order."""
        return cls(tuple(sorted({entity.type for document in documents for entity in document.entities})))

    def __contains__(self, entity_type: object) -> bool:
        return entity_type in self.types

    def __or__(self, other: TagSet) -> TagSet:
        return TagSet((*self.types, *(kind for kind in other.types if kind not in self)))

    def others(self, documents: Iterable[Document]) -> dict[str, int]:
        """How many mentions `documents` hold of each type that is not here, in alphabetical order."""
        found = Counter(entity.type for document in documents for entity in document.entities)
        return {kind: found[kind] for kind in sorted(found) if kind not in self}

    def tags(self, scheme: TagScheme) -> tuple[str, ...]:
        """Every tag of `scheme` over these types, `O` first."""
        return scheme.tags(self.types)

    def restrict(self, document: Document) -> Document:
        """The document with only the entities of these types, and the relations among them."""
        kept = tuple(entity for entity in document.entities if entity.type in self)
        mentions = {entity.id for entity in kept}
        concepts = {concept for entity in kept for concept in entity.concepts}

        def stands(relation: Relation) -> bool:
            known = mentions if relation.level is Level.MENTION else concepts
            return relation.head in known and relation.tail in known

        return replace(document, entities=kept, relations=tuple(filter(stands, document.relations)))

    @staticmethod
    def rename(document: Document, names: Mapping[str, str]) -> Document:
        """The document with types renamed as `names` says; a type it does not name keeps its own."""
        return replace(
            document,
            entities=tuple(replace(entity, type=names.get(entity.type, entity.type)) for entity in document.entities),
        )
