"""Tag sets: the entity types that a site annotates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wardround.errors import TextError
from wardround.text.document import Document, Level, Relation
from wardround.text.tag_schemes import TagScheme, WordSpan

__all__ = ["TagSet", "complete_annotation"]


@dataclass(frozen=True)
class TagSet:
    """The entity types that a site annotates, in a fixed order. Other types may occur without being annotated."""

    types: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.types)) != len(self.types):
            raise TextError(f"a tag set has a type twice: {', '.join(self.types)}")
        if not all(self.types):
            raise TextError("a tag set has a type without a name")

    @classmethod
    def of(cls, documents: Iterable[Document]) -> TagSet:
        """Return the types that occur in `documents`, in alphabetical order."""
        return cls(tuple(sorted({entity.type for document in documents for entity in document.entities})))

    def __contains__(self, entity_type: object) -> bool:
        return entity_type in self.types

    def __or__(self, other: TagSet) -> TagSet:
        return TagSet((*self.types, *(kind for kind in other.types if kind not in self)))

    def count_other_types(self, documents: Iterable[Document]) -> dict[str, int]:
        """Count the mentions in `documents` of each type outside this set, in alphabetical order."""
        found = Counter(entity.type for document in documents for entity in document.entities)
        return {kind: found[kind] for kind in sorted(found) if kind not in self}

    def tags(self, scheme: TagScheme) -> tuple[str, ...]:
        """Return all tags of `scheme` for these types, `O` first."""
        return scheme.tags(self.types)

    def restrict(self, document: Document) -> Document:
        """Return the document with only the entities of these types and the relations between them."""
        kept = tuple(entity for entity in document.entities if entity.type in self)
        mentions = {entity.id for entity in kept}
        concepts = {concept for entity in kept for concept in entity.concepts}

        def is_kept(relation: Relation) -> bool:
            known = mentions if relation.level is Level.MENTION else concepts
            return relation.head in known and relation.tail in known

        return replace(document, entities=kept, relations=tuple(filter(is_kept, document.relations)))

    @staticmethod
    def rename(document: Document, names: Mapping[str, str]) -> Document:
        """Return the document with entity types renamed; a type that `names` does not contain keeps its name."""
        return replace(
            document,
            entities=tuple(replace(entity, type=names.get(entity.type, entity.type)) for entity in document.entities),
        )


def complete_annotation(local: Sequence[WordSpan], found: Iterable[WordSpan], annotated: TagSet) -> list[WordSpan]:
    """Return the local mentions plus those found mentions of other types that share no word with them.

    The site's own annotation always wins over a model's prediction. Of two found mentions on one word, the first wins.
    """
    taken = {word for mention in local for word in range(mention.start, mention.end)}
    kept = list(local)
    for mention in found:
        words = range(mention.start, mention.end)
        if mention.type not in annotated and taken.isdisjoint(words):
            taken.update(words)
            kept.append(mention)
    return kept
