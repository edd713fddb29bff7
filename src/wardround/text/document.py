"""Documents, entities and relations, all in character offsets of one text.

The classes are frozen and validate themselves: an entity cannot lie outside its document. Words and tags are not part
of a document; `text.segmentation` and `text.tag_schemes` compute them.
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
    """A half-open range of characters `[start, end)`."""

    start: int
    end: int

    def overlaps(self, other: Range) -> bool:
        """Return True if the two share at least one character."""
        return self.start < other.end and other.start < self.end


class Level(Enum):
    """What the ids at the two ends of a relation refer to."""

    MENTION = "mention"  # entity ids: one mention is related to another
    CONCEPT = "concept"  # concept ids: the relation holds for every mention of the concept (PubTator)


@dataclass(frozen=True, slots=True)
class Entity:
    """A typed mention: one range of characters, or several ranges if the mention is discontinuous.

    >>> from wardround import Entity
    >>> entity = Entity("T1", "Drug", ((5, 12),))
    >>> entity.start, entity.end, entity.text_in("Took aspirin daily.")
    (5, 12, 'aspirin')
    """

    id: str
    type: str
    ranges: tuple[Range, ...]
    concepts: tuple[str, ...] = ()  # identifiers in a terminology, if the corpus has them
    attributes: Attributes = ()
    note: str = field(default="", repr=False)  # an annotator's remark; may quote the note
    score: float | None = field(default=None, compare=False)  # of a prediction: the probability that it is right

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
        _check_score(self.score, f"entity {self.id!r}")

    @property
    def start(self) -> int:
        """Offset of the first character."""
        return self.ranges[0].start

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.ranges[-1].end

    @property
    def envelope(self) -> Range:
        """The range from the first to the last character, including gaps."""
        return Range(self.start, self.end)

    @property
    def longest_range(self) -> Range:
        """The longest range; the first of several."""
        return max(self.ranges, key=lambda range_: range_.end - range_.start)

    @property
    def is_discontinuous(self) -> bool:
        """True if the mention has more than one range."""
        return len(self.ranges) > 1

    def overlaps(self, other: Entity) -> bool:
        """Return True if the two share at least one character."""
        return any(a.overlaps(b) for a in self.ranges for b in other.ranges)

    def text_in(self, text: str) -> str:
        """Return the text of the mention; ranges are joined by a space, as in brat."""
        return " ".join(text[start:end] for start, end in self.ranges)


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed, directed pair of entities, or of concepts at concept level.

    >>> from wardround import Relation
    >>> Relation("R1", "causes", head="T1", tail="T2").head
    'T1'
    """

    id: str
    type: str
    head: str
    tail: str
    level: Level = Level.MENTION
    attributes: Attributes = ()
    score: float | None = field(default=None, compare=False)  # of a prediction: the probability that it is right

    def __post_init__(self) -> None:
        if not self.type:
            raise TextError(f"relation {self.id!r} has no type")
        _check_score(self.score, f"relation {self.id!r}")


@dataclass(frozen=True, slots=True)
class Document:
    """One note: its text and its annotations.

    `words` and `sentences` are set only if the corpus provides them, as CoNLL columns do. Otherwise they are None and
    `text.segmentation` finds them.

    >>> from wardround import Document, Entity
    >>> note = Document("n1", "Took aspirin.", (Entity("T1", "Drug", ((5, 12),)),))
    >>> [entity.text_in(note.text) for entity in note.entities]
    ['aspirin']
    """

    id: str
    text: str = field(repr=False)  # a repr must not put a note into a log
    entities: tuple[Entity, ...] = field(default=(), repr=False)
    relations: tuple[Relation, ...] = field(default=(), repr=False)
    words: tuple[Range, ...] | None = field(default=None, repr=False)
    sentences: tuple[Range, ...] | None = field(default=None, repr=False)
    attributes: Attributes = ()

    def __post_init__(self) -> None:
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
        self._check_relations()
        for name, ranges in (("words", self.words), ("sentences", self.sentences)):
            previous_end = 0
            for start, end in ranges or ():
                if start < previous_end or end <= start or end > len(self.text):
                    raise TextError(f"document {self.id!r}: {name} are not in order at {start}-{end}")
                previous_end = end

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
                        f"which is not a {relation.level.value} of the document"
                    )

    def _repr_html_(self) -> str:
        """Return the note with its mentions marked; notebooks call this."""
        from wardround.text.marked_html import document_html

        return document_html(self)

    def with_entities(self, entities: Iterable[Entity]) -> Document:
        """Return the same text with these entities and no relations."""
        return replace(self, entities=tuple(entities), relations=())


def _check_score(score: float | None, what: str) -> None:
    if score is not None and not 0 <= score <= 1:
        raise TextError(f"{what}: the score {score} is not a probability")
