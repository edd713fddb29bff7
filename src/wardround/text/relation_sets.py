"""Relation sets: the relation types of a task, and the entity types they may connect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from wardround.errors import TextError
from wardround.text.document import Document, Level, Relation

__all__ = ["RelationSet", "RelationType"]


@dataclass(frozen=True)
class RelationType:
    """A relation type and the pairs of entity types it may connect; without `ends`, any pair."""

    name: str
    ends: tuple[tuple[str, str], ...] = ()  # (head type, tail type)

    def allows(self, head: str, tail: str) -> bool:
        """Return True if it may connect an entity of type `head` to one of type `tail`."""
        return not self.ends or (head, tail) in self.ends


@dataclass(frozen=True)
class RelationSet:
    """The relation types of a task, in a fixed order. Undirected relations may name their ends in either order."""

    types: tuple[RelationType, ...]
    negative: str = "none"  # the class of a pair without a relation
    directed: bool = True
    level: Level = Level.MENTION

    def __post_init__(self) -> None:
        if not self.types:
            raise TextError("a relation set has no type; name at least one")
        if not all(self.names):
            raise TextError("a relation set has a type without a name")
        if len(set(self.names)) != len(self.names):
            raise TextError(f"a relation set has a class twice: {', '.join(self.names)}")

    @classmethod
    def of(cls, documents: Iterable[Document], *, negative: str = "none", directed: bool = True) -> RelationSet:
        """Return the relation types of `documents`, sorted, each with the pairs of entity types it connects."""
        ends: dict[str, set[tuple[str, str]]] = {}
        levels: set[Level] = set()
        for document in documents:
            kinds: dict[tuple[Level, str], set[str]] = {}  # the entity types of each mention and concept
            for entity in document.entities:
                kinds.setdefault((Level.MENTION, entity.id), set()).add(entity.type)
                for concept in entity.concepts:
                    kinds.setdefault((Level.CONCEPT, concept), set()).add(entity.type)
            for relation in document.relations:
                if relation.type != negative:
                    seen = product(kinds[relation.level, relation.head], kinds[relation.level, relation.tail])
                    ends.setdefault(relation.type, set()).update(seen)
                    levels.add(relation.level)
        if len(levels) > 1:
            raise TextError("the documents relate both mentions and concepts; build one set from each kind")
        types = tuple(RelationType(name, tuple(sorted(seen))) for name, seen in sorted(ends.items()))
        return cls(types, negative, directed, *levels)

    @property
    def names(self) -> tuple[str, ...]:
        """All classes, the negative one first."""
        return (self.negative, *(kind.name for kind in self.types))

    def allowed(self, head: str, tail: str) -> tuple[str, ...]:
        """Return the relation types that may connect entities of these types."""
        orders = [(head, tail)] if self.directed else [(head, tail), (tail, head)]
        return tuple(kind.name for kind in self.types if any(kind.allows(*order) for order in orders))

    def with_ordered_ends(self, document: Document) -> Document:
        """Return the document with the ends of undirected relations in a fixed order, so that they can be compared.

        Mentions are ordered by position in the text, concepts alphabetically.
        """
        if self.directed:
            return document
        places = {entity.id: (entity.start, entity.end, entity.id) for entity in document.entities}

        def ordered(relation: Relation) -> Relation:
            key = places.__getitem__ if relation.level is Level.MENTION else None
            head, tail = sorted((relation.head, relation.tail), key=key)
            return replace(relation, head=head, tail=tail)

        return replace(document, relations=tuple(map(ordered, document.relations)))

    def as_values(self) -> dict[str, Any]:
        """Return the set as plain values, for JSON."""
        types = [{"name": kind.name, "ends": [list(pair) for pair in kind.ends]} for kind in self.types]
        return {"types": types, "negative": self.negative, "directed": self.directed, "level": self.level.value}

    @classmethod
    def from_values(cls, values: Any) -> RelationSet:
        """Restore a set from `as_values()`."""
        if not _is_set(values):
            raise TextError("not a relation set: expected types with their ends, negative, directed and level")
        types = tuple(
            RelationType(kind["name"], tuple((head, tail) for head, tail in kind["ends"])) for kind in values["types"]
        )
        return cls(types, values["negative"], values["directed"], Level(values["level"]))


def _is_set(values: Any) -> bool:
    return (
        isinstance(values, dict)
        and values.keys() == {"types", "negative", "directed", "level"}
        and isinstance(values["negative"], str)
        and isinstance(values["directed"], bool)
        and values["level"] in [level.value for level in Level]
        and isinstance(values["types"], list)
        and all(map(_is_type, values["types"]))
    )


def _is_type(kind: Any) -> bool:
    return (
        isinstance(kind, dict)
        and kind.keys() == {"name", "ends"}
        and isinstance(kind["name"], str)
        and isinstance(kind["ends"], list)
        and all(isinstance(pair, list) and len(pair) == 2 for pair in kind["ends"])
        and all(isinstance(end, str) for pair in kind["ends"] for end in pair)
    )
