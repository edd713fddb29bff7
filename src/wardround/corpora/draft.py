"""A document under construction: a part that does not fit is reported and left out, the rest is kept."""

from __future__ import annotations

from collections.abc import Iterable
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
    entities: dict[str, Entity] = field(default_factory=dict)
    relations: dict[str, Relation] = field(default_factory=dict)

    def add_entity(self, entity_id: str, kind: str, ranges: Iterable[tuple[int, int]], report: Reporter) -> bool:
        """Make an entity and keep it, or report why not."""
        try:
            entity = Entity(entity_id, kind, tuple(Range(*r) for r in ranges))
        except TextError as error:
            report.error(str(error))
            return False
        return self.keep_entity(entity, report)

    def keep_entity(self, entity: Entity, report: Reporter) -> bool:
        """Keep the entity, or report why not."""
        if entity.end > len(self.text):
            report.error(f"{entity.id} ends at {entity.end}, the text has {len(self.text)} characters")
            return False
        if entity.id in self.entities:
            report.error(f"a second entity has the id {entity.id}")
            return False
        self.entities[entity.id] = entity
        return True

    def add_relation(self, relation: Relation, report: Reporter) -> None:
        """Keep the relation, or report why not."""
        known = set(self.entities)
        if relation.level is Level.CONCEPT:
            known = {concept for entity in self.entities.values() for concept in entity.concepts}
        missing = [end for end in (relation.head, relation.tail) if end not in known]
        if missing:
            report.error(f"relation {relation.id} names {missing[0]}, which is no {relation.level.value} here")
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
