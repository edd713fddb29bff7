"""Documents, entities and relations, all in character offsets of one text.

The three classes are frozen and check themselves: an `Entity` outside its `Document` cannot exist.
Nothing here knows of words or tags; those are views made by `text.words` and `text.tag_schemes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from wardround.errors import TextError

__all__ = ["Attributes", "Document", "Entity", "Level", "Range", "Relation"]

Attributes = tuple[tuple[str, str], ...]


class Range(NamedTuple):
    """Half-open range of characters `[start, end)`."""

    start: int
    end: int

    def overlaps(self, other: Range) -> bool:
        """Whether the two share at least one character."""
        return self.start < other.end and other.start < self.end


class Level(Enum):
    """What the two ends of a relation name."""

    MENTION = "mention"  # entity ids: this mention relates to that one
    CONCEPT = "concept"  # concept ids: every mention of the concept is meant (PubTator)


@dataclass(frozen=True, slots=True)
class Entity:
    """A typed mention: one range of characters, or several where the mention is discontinuous."""

    id: str
    type: str
    ranges: tuple[Range, ...]
    concepts: tuple[str, ...] = ()  # identifiers in a terminology, where the corpus gives them
    attributes: Attributes = ()
    note: str = field(default="", repr=False)  # an annotator's remark, which may quote the note

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", tuple(Range(*r) for r in self.ranges))
        if not self.type:
            raise TextError(f"entity {self.id!r} has no type")
        if not self.ranges:
            raise TextError(f"entity {self.id!r} has no character range")
        previous_end = 0
        for start, end in self.ranges:
            if start < previous_end:
                raise TextError(f"entity {self.id!r}: range {start}-{end} starts before {previous_end}")
            if end <= start:
                raise TextError(f"entity {self.id!r}: range {start}-{end} is empty")
            previous_end = end

    @property
    def start(self) -> int:
        """First character."""
        return self.ranges[0].start

    @property
    def end(self) -> int:
        """One past the last character."""
        return self.ranges[-1].end

    @property
    def envelope(self) -> Range:
        """The single range from first to last character, gaps included."""
        return Range(self.start, self.end)

    @property
    def is_discontinuous(self) -> bool:
        """Whether the mention has more than one range."""
        return len(self.ranges) > 1

    def overlaps(self, other: Entity) -> bool:
        """Whether the two share at least one character."""
        return any(a.overlaps(b) for a in self.ranges for b in other.ranges)

    def text_in(self, text: str) -> str:
        """The words of the mention; ranges are joined by a blank, as brat does."""
        return " ".join(text[start:end] for start, end in self.ranges)


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed, directed pair of entities (or, at concept level, of concepts)."""

    id: str
    type: str
    head: str
    tail: str
    level: Level = Level.MENTION
    attributes: Attributes = ()

    def __post_init__(self) -> None:
        if not self.type:
            raise TextError(f"relation {self.id!r} has no type")


@dataclass(frozen=True, slots=True)
class Document:
    """One note: its text and what is annotated in it.

    `words` and `sentences` are set only where the corpus itself gives them (CoNLL columns do);
    otherwise they are None and `text.words`, `text.sentences` find them.
    """

    id: str
    text: str = field(repr=False)  # a note never shows up in a log by way of a repr
    entities: tuple[Entity, ...] = field(default=(), repr=False)
    relations: tuple[Relation, ...] = field(default=(), repr=False)
    words: tuple[Range, ...] | None = field(default=None, repr=False)
    sentences: tuple[Range, ...] | None = field(default=None, repr=False)
    attributes: Attributes = ()

    def __post_init__(self) -> None:
        self._check_entities()
        self._check_relations()
        for name in ("words", "sentences"):
            self._check_ranges(name, getattr(self, name))

    def _check_entities(self) -> None:
        seen: set[str] = set()
        for entity in self.entities:
            if entity.id in seen:
                raise TextError(f"document {self.id!r}: two entities have the id {entity.id!r}")
            seen.add(entity.id)
            if entity.start < 0 or entity.end > len(self.text):
                raise TextError(
                    f"document {self.id!r}: entity {entity.id!r} ends at {entity.end}, "
                    f"the text has {len(self.text)} characters"
                )

    def _check_relations(self) -> None:
        mentions = {entity.id for entity in self.entities}
        concepts = {concept for entity in self.entities for concept in entity.concepts}
        seen: set[str] = set()
        for relation in self.relations:
            if relation.id in seen:
                raise TextError(f"document {self.id!r}: two relations have the id {relation.id!r}")
            seen.add(relation.id)
            known = mentions if relation.level is Level.MENTION else concepts
            for end in (relation.head, relation.tail):
                if end not in known:
                    raise TextError(
                        f"document {self.id!r}: relation {relation.id!r} names {end!r}, "
                        f"which is no {relation.level.value} of the document"
                    )

    def _check_ranges(self, name: str, ranges: tuple[Range, ...] | None) -> None:
        if ranges is None:
            return
        previous_end = 0
        for start, end in ranges:
            if start < previous_end or end <= start or end > len(self.text):
                raise TextError(f"document {self.id!r}: {name} are not in order at {start}-{end}")
            previous_end = end

    def with_entities(self, entities: Iterable[Entity]) -> Document:
        """The same text with other entities and no relations."""
        return replace(self, entities=tuple(entities), relations=())
