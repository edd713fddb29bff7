"""Relation sets: which relations are looked for, and between which types of entities they may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from wardround.errors import TextError
from wardround.text.document import Document, Level, Relation

__all__ = ["RelationSet", "RelationType"]


@dataclass(frozen=True)
class RelationType:
    """A type of relation, and between which types of entities it may run; without ends, between any."""

    name: str
    ends: tuple[tuple[str, str], ...] = ()  # (head type, tail type)

    def allows(self, head: str, tail: str) -> bool:
        """Whether it may run from an entity of type `head` to one of type `tail`."""
        return not self.ends or (head, tail) in self.ends


@dataclass(frozen=True)
class RelationSet:
    """The relation types that are looked for, in a fixed order. Where it is not directed, ends may stand either way."""

    types: tuple[RelationType, ...]
    negative: str = "none"  # the class of a pair without a relation
    directed: bool = True
    level: Level = Level.MENTION

    def __post_init__(self) -> None:
        if not self.types:
            raise TextError("a relation set holds no type; name at least one")
        if not all(self.names):
            raise TextError("a relation set holds a type without a name")
        if len(set(self.names)) != len(self.names):
            raise TextError(f"a relation set names a class twice: {', '.join(self.names)}")

    @classmethod
    def of(cls, documents: Iterable[Document], *, negative: str = "none", directed: bool = True) -> RelationSet:
        """The relation types of `documents`, in alphabetical order, each between the entity types it was seen with."""
        ends: dict[str, set[tuple[str, str]]] = {}
        levels: set[Level] = set()
        for document in documents:
            kinds = _types_of_ends(document)
            for relation in document.relations:
                if relation.type != negative:
                    seen = product(kinds[relation.level, relation.head], kinds[relation.level, relation.tail])
                    ends.setdefault(relation.type, set()).update(seen)
                    levels.add(relation.level)
        if len(levels) > 1:
            raise TextError("the documents relate both mentions and concepts; learn a set from each kind alone")
        types = tuple(RelationType(name, tuple(sorted(seen))) for name, seen in sorted(ends.items()))
        return cls(types, negative, directed, *levels)

    @property
    def names(self) -> tuple[str, ...]:
        """Every class, the negative one first."""
        return (self.negative, *(kind.name for kind in self.types))

    def allowed(self, head: str, tail: str) -> tuple[str, ...]:
        """The relation types that may run between entities of these types."""
        orders = [(head, tail)] if self.directed else [(head, tail), (tail, head)]
        return tuple(kind.name for kind in self.types if any(kind.allows(*order) for order in orders))

    def in_one_order(self, document: Document) -> Document:
        """The document with both ends of an undirected relation in a fixed order, so that two can be compared.

        That of mentions is the order of the text, that of concepts the alphabet's.
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
        """The set as plain values, for JSON."""
        types = [{"name": kind.name, "ends": [list(pair) for pair in kind.ends]} for kind in self.types]
        return {"types": types, "negative": self.negative, "directed": self.directed, "level": self.level.value}

    @classmethod
    def from_values(cls, values: Any) -> RelationSet:
        """What `as_values` gave."""
        if not _is_set(values):
            raise TextError("is no relation set: it has types with their ends, negative, directed and level")
        types = tuple(
            RelationType(kind["name"], tuple((head, tail) for head, tail in kind["ends"])) for kind in values["types"]
        )
        return cls(types, values["negative"], values["directed"], Level(values["level"]))


def _types_of_ends(document: Document) -> Mapping[tuple[Level, str], set[str]]:
    """The types of the entities that a relation may name as its end."""
    kinds: dict[tuple[Level, str], set[str]] = {}
    for entity in document.entities:
        kinds.setdefault((Level.MENTION, entity.id), set()).add(entity.type)
        for concept in entity.concepts:
            kinds.setdefault((Level.CONCEPT, concept), set()).add(entity.type)
    return kinds


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
    if not isinstance(kind, dict) or kind.keys() != {"name", "ends"} or not isinstance(kind["ends"], list):
        return False
    return isinstance(kind["name"], str) and all(map(_is_pair, kind["ends"]))


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, str) for end in pair)
