"""The base class of corpus formats, and what their readers share: problems, drafts of documents, and fields.

A format is one class that declares its name, what it reads and what it holds; its fields are its options. It is listed
once in `corpora.formats`, or in the entry points of an installed package.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, get_args

from wardround.errors import CorpusError, TextError, UsageError
from wardround.text.document import Attributes, Document, Entity, Level, Range, Relation

__all__ = [
    "EVERYTHING",
    "OFFSETS",
    "Clue",
    "Content",
    "CorpusFormat",
    "Draft",
    "LineCodec",
    "Problem",
    "ProblemSink",
    "Reporter",
    "Severity",
    "check_choice",
    "check_plain",
    "fail_on_error",
    "is_plain",
    "join_concepts",
    "offset_pairs",
    "split_concepts",
    "whole_number",
]

Content = Literal[
    "entities", "discontinuous", "relations", "concepts", "attributes", "notes", "words", "sentences"
]  # the parts of a document except its id and text; `notes` are the remarks of annotators
EVERYTHING: frozenset[Content] = frozenset(get_args(Content))

# Twelve digits are enough for any file and few enough to be converted quickly.
OFFSETS = r"[0-9]{1,12} [0-9]{1,12}(?:;[0-9]{1,12} [0-9]{1,12})*"
_NUMBER = re.compile(r"[0-9]{1,12}")
_FIELD_ENDS = re.compile(r"[\t\r\n]")
_NO_CONCEPT = ("", "-", "-1")


class Severity(Enum):
    """How much a problem matters."""

    ERROR = "error"  # the annotation cannot be used
    WARNING = "warning"  # it can be used, but should be checked by a person


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a corpus file: what is wrong, where, and how severe it is. It never quotes the note."""

    message: str
    path: Path | None = None
    line: int | None = None
    severity: Severity = Severity.ERROR


ProblemSink = Callable[[Problem], None]


def fail_on_error(problem: Problem) -> None:
    """Raise `CorpusError` for an error and ignore a warning; the default sink."""
    if problem.severity is Severity.ERROR:
        raise CorpusError(problem.message, path=problem.path, line=problem.line)


@dataclass(frozen=True, slots=True)
class Reporter:
    """A place in a file; reports problems there to the sink."""

    path: Path
    problems: ProblemSink
    line: int | None = None
    item: str = ""  # names the place if there are no lines, for example `item 7: `

    def at(self, line: int) -> Reporter:
        """Return a reporter for another line of the same file."""
        return Reporter(self.path, self.problems, line, self.item)

    def error(self, message: str) -> None:
        """Report something that cannot be used."""
        self.problems(Problem(self.item + message, self.path, self.line))

    def warning(self, message: str) -> None:
        """Report something that can be used but should be checked by a person."""
        self.problems(Problem(self.item + message, self.path, self.line, Severity.WARNING))


class LineCodec(NamedTuple):
    """Converts between a document and one line of text, for formats with one document on each line."""

    decode: Callable[[str, str, Reporter], Document | None]  # line, id if the line has none, place of the line
    encode: Callable[[Document], str]


@dataclass(frozen=True)
class Clue:
    """How `--format auto` recognises a format. All parts that are set must hold; the clue with most parts wins."""

    endings: tuple[str, ...]  # of a file, which may also end in `.gz`
    why: str  # completes "the format is …:"
    content: str = ""  # a regular expression that matches somewhere in the first characters of such a file
    beside: str = ""  # the ending of another file
    folders: tuple[str, ...] = ()  # the names of folders in the corpus
    options: Mapping[str, str] = field(default_factory=dict)  # of the format

    @property
    def strength(self) -> int:
        """Return the number of parts that are set in addition to the ending."""
        return bool(self.content) + bool(self.beside) + bool(self.folders)


class CorpusFormat(ABC):
    """A file format of annotated notes. Subclasses are frozen dataclasses; their fields are the format's options."""

    name: ClassVar[str]  # as in study files and on the command line
    description: ClassVar[str]  # what is read, in a few words
    ending: ClassVar[str] = ""  # of the one file that `write` creates; empty if it creates a folder
    clues: ClassVar[tuple[Clue, ...]] = ()  # for `--format auto`, which finds no format without one

    @property
    @abstractmethod
    def holds(self) -> frozenset[Content]:
        """The parts of a document that the format can represent, at least some of them."""

    @abstractmethod
    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield documents one at a time; report each problem to `problems` and skip the faulty part."""

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write the documents to the file or folder `path`. A format that does not override this is read-only."""
        raise UsageError(f"the format {self.name} can only be read")

    @property
    def can_write(self) -> bool:
        """True if the format can be written with its present options."""
        return type(self).write is not CorpusFormat.write

    @property
    def line_codec(self) -> LineCodec | None:
        """The codec of a format with one document on each line; None for all others."""
        return None


def check_choice(option: str, value: str, choices: object) -> None:
    """Raise `UsageError` if the value is not one of `choices`, the `Literal` type of an option."""
    known = get_args(choices)
    if value not in known:
        raise UsageError(f"{value!r} is not a {option}: expected {', '.join(known[:-1])} or {known[-1]}")


@dataclass
class Draft:
    """A document under construction: a part that does not fit is reported and left out, the rest is kept."""

    text: str = field(repr=False)
    words_in: str = "text column"  # where the file repeats the words of a mention; used in messages
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
        """Create an entity and keep it, or report why not. Ranges may be in any order.

        `words`, if the file repeats them, must equal the text at the ranges, in the same order. Runs of white space are
        equal to each other, because files replace line ends inside a mention by spaces. In a discontinuous mention all
        white space is ignored, because files differ in what they put between two ranges.
        """
        ordered = tuple(Range(*pair) for pair in sorted(ranges))
        try:
            entity = Entity(entity_id, kind, ordered, concepts, attributes, note)
        except TextError as error:
            report.error(str(error))
            return False
        found = " ".join(self.text[start:end] for start, end in ranges)
        spaced = _visible if len(ranges) > 1 else _spaced
        if words is not None and entity.end <= len(self.text) and spaced(words) != spaced(found):
            report.error(f"{entity_id}: the {self.words_in} differs from the text of the note at its offsets")
            return False
        return self.keep_entity(entity, report)

    def keep_entity(self, entity: Entity, report: Reporter) -> bool:
        """Keep the entity, or report why not."""
        if entity.end > len(self.text):
            report.error(f"{entity.id} ends at {entity.end}, the text has {len(self.text)} characters")
        elif entity.id in self.entities:
            report.error(f"a second entity has the id {entity.id}")
        else:
            self.replace_entity(entity)
            return True
        return False

    def replace_entity(self, entity: Entity) -> None:
        """Replace the entity with the same id, after later lines added to it."""
        self.entities[entity.id] = entity
        self._concepts.update(entity.concepts)

    def add_relation(self, relation: Relation, report: Reporter) -> None:
        """Keep the relation, or report why not. Its ends must have been added before."""
        if relation.level is Level.CONCEPT and not self._concepts.issuperset((relation.head, relation.tail)):
            # Do not quote an unknown name: in a file of another format it may be a word of the note.
            report.error(f"relation {relation.id} names a concept that no mention here has; it is left out")
        elif relation.level is Level.MENTION and not self.entities.keys() >= {relation.head, relation.tail}:
            end = "tail" if relation.head in self.entities else "head"
            report.error(f"relation {relation.id} has a {end} that is not a mention here; it is left out")
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
        """Return the document with all parts that were kept."""
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


def _visible(words: str) -> str:
    return "".join(words.split())


# Single fields of a file.


def whole_number(text: str) -> int | None:
    """Return the number, or None if the text is not a number or too long for an offset."""
    return int(text) if _NUMBER.fullmatch(text) else None


def offset_pairs(offsets: str) -> list[tuple[int, int]]:
    """Convert `"3 7;12 15"`, which `OFFSETS` matches, to [(3, 7), (12, 15)]."""
    pairs = (pair.split(" ") for pair in offsets.split(";"))
    return [(int(start), int(end)) for start, end in pairs]


def split_concepts(text: str, separators: str) -> tuple[str, ...]:
    """Return the concept ids in `text`, separated by any of the separators."""
    parts = re.split(f"[{re.escape(separators)}]", text) if separators else [text]
    return tuple(part.strip() for part in parts if part.strip() not in _NO_CONCEPT)


def join_concepts(concepts: Sequence[str], separators: str) -> str:
    """Join the ids with the first separator; raise `CorpusError` if they could not be read back."""
    joined = separators[:1].join(concepts)
    if joined:
        check_plain("a concept id", joined)
    if split_concepts(joined, separators) != tuple(concepts):
        raise CorpusError(
            f"a concept id is empty, '-' or '-1', begins or ends with a space, or contains one of {separators!r}"
        )
    return joined


def is_plain(value: str) -> bool:
    """Return True if the value contains neither a tab nor a line end."""
    return not _FIELD_ENDS.search(value)


def check_plain(what: str, value: str) -> None:
    """Raise `CorpusError` if the value cannot be written in a tab-separated column."""
    if not value or not is_plain(value):
        raise CorpusError(f"{what} is empty or contains a tab or a line end, which a column cannot hold; rename it")
