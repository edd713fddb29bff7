"""A document under construction: a part that does not fit is reported and left out, the rest is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wardround.corpora.source import Problem, ProblemSink, Severity
from wardround.errors import TextError
from wardround.text.document import Attributes, Document, Entity, Level, Range, Relation

__all__ = ["Draft", "Reporter"]


@dataclass(frozen=True, slots=True)
class Reporter:
    """A place in a file, from which problems go to the sink."""

    path: Path
    problems: ProblemSink
    line: int | None = None
    item: str = ""  # names the place where there are no lines, for example `item 7: `

    def at(self, line: int) -> Reporter:
        """The same file, another line."""
        return Reporter(self.path, self.problems, line, self.item)

    def error(self, message: str) -> None:
        """Something that cannot be used."""
        self.problems(Problem(self.item + message, self.path, self.line))

    def warning(self, message: str) -> None:
        """Something usable that somebody should look at."""
        self.problems(Problem(self.item + message, self.path, self.line, Severity.WARNING))


@dataclass
class Draft:
    """Entities and relations as they come in; both checked against the text and each other at once."""

    text: str = field(repr=False)
    words_in: str = "text column"  # where the file repeats the words of a mention; a message says so
    entities: dict[str, Entity] = field(default_factory=dict, init=False)
    relations: dict[str, Relation] = field(default_factory=dict, init=False)
    _concepts: set[str] = field(default_factory=set, init=False)  # of all entities

    def add_entity(
        self,
        report: Reporter,
        *,
        entity_id: str,
        kind: str,
        ranges: Sequence[tuple[int, int]],
        words: str | None = None,
        concepts: tuple[str, ...] = (),
        attributes: Attributes = (),
        note: str = "",
    ) -> bool:
        """Make an entity and keep it, or report why not. Ranges may come in any order.

        `words`, where the file gives them, must stand at the ranges as they come. Runs of white space are alike:
        files write line ends inside a mention as blanks.
        """
        ordered = tuple(Range(*pair) for pair in sorted(ranges))
        try:
            entity = Entity(entity_id, kind, ordered, concepts, attributes, note)
        except TextError as error:
            report.error(str(error))
            return False
        found = " ".join(self.text[start:end] for start, end in ranges)
        if words is not None and entity.end <= len(self.text) and _spaced(words) != _spaced(found):
            report.error(f"{entity_id}: the {self.words_in} is not what stands at its offsets in the note")
            return False
        return self.keep_entity(entity, report)

    def keep_entity(self, entity: Entity, report: Reporter) -> bool:
        """Keep the entity, or report why not."""
        if entity.end > len(self.text):
            report.error(f"{entity.id} ends at {entity.end}, the text has {len(self.text)} characters")
        elif entity.id in self.entities:
            report.error(f"a second entity has the id {entity.id}")
        else:
            self.change_entity(entity)
            return True
        return False

    def change_entity(self, entity: Entity) -> None:
        """Put the entity in the place of the one with its id, of which later lines have told more."""
        self.entities[entity.id] = entity
        self._concepts.update(entity.concepts)

    def add_relation(self, relation: Relation, report: Reporter) -> None:
        """Keep the relation, or report why not. What its ends name must be there already."""
        if relation.level is Level.CONCEPT and not self._concepts.issuperset((relation.head, relation.tail)):
            # A name that is not there is not quoted: in a file that was taken for another it is a word of the note.
            report.error(f"relation {relation.id} names a concept that no mention here has; it is left out")
        elif relation.level is Level.MENTION and not self.entities.keys() >= {relation.head, relation.tail}:
            end = "tail" if relation.head in self.entities else "head"
            report.error(f"relation {relation.id} has a {end} which is no mention here; it is left out")
        elif relation.id in self.relations:
            report.error(f"a second relation has the id {relation.id}")
        else:
            self.relations[relation.id] = relation

    def document(
        self,
        document_id: str,
        *,
        words: Iterable[Range] | None = None,
        sentences: Iterable[Range] | None = None,
        attributes: Attributes = (),
    ) -> Document:
        """What was kept."""
        return Document(
            document_id,
            self.text,
            tuple(self.entities.values()),
            tuple(self.relations.values()),
            words=None if words is None else tuple(words),
            sentences=None if sentences is None else tuple(sentences),
            attributes=attributes,
        )


def _spaced(words: str) -> str:
    return re.sub(r"\s+", " ", words)
