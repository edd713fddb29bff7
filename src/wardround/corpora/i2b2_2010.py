"""i2b2/VA 2010 concepts, assertions and relations: a note and up to three annotation files.

    note.txt   Chest pain eased by lunarol .
    note.con   c="chest pain" 1:0 1:1||t="problem"
    note.con   c="lunarol" 1:4 1:4||t="treatment"
    note.rel   c="lunarol" 1:4 1:4||r="TrIP"||c="chest pain" 1:0 1:1
    note.ast   c="chest pain" 1:0 1:1||t="problem"||a="present"

A position is `line:word`: lines count from 1, words from 0, and words are separated by white space. The words in quotes
are in lower case. The files are in one folder, or in folders named txt, concept, rel and ast. An assertion becomes the
attribute `assertion` of its entity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.corpus_files import (
    files_below,
    id_of,
    read_each,
    read_lines,
    read_text,
    refuse_links_out,
    sibling,
    write_folder,
)
from wardround.corpora.corpus_format import Clue, Content, CorpusFormat, Draft, ProblemSink, Reporter, fail_on_error
from wardround.errors import CorpusError
from wardround.text.document import Document, Level, Range, Relation

__all__ = ["I2b2Concepts"]

_FOLDERS = {".txt": "txt", ".con": "concept", ".rel": "rel", ".ast": "ast"}
_CONCEPT = r'c="(.*)" ([0-9]{1,9}):([0-9]{1,9}) ([0-9]{1,9}):([0-9]{1,9})'
_CON = re.compile(_CONCEPT + r'\|\|t="([^"]+)"\s*')
_AST = re.compile(_CONCEPT + r'\|\|t="([^"]+)"\|\|a="([^"]+)"\s*')
_REL = re.compile(_CONCEPT + r'\|\|r="([^"]+)"\|\|' + _CONCEPT + r"\s*")
_ASSERTION = "assertion"
_Words = dict[tuple[int, int], Range]  # by line and word number, as in the files


@dataclass(frozen=True)
class I2b2Concepts(CorpusFormat):
    """Reader and writer of the 2010 layout. A note's id is its path below the folder, without `txt/` and ending."""

    name = "i2b2-2010"
    description = "`.txt` with `.con`, `.rel` and `.ast`, in one folder or in folders `txt`, `concept`, `rel`, `ast`"
    holds = frozenset[Content]({"entities", "relations", "attributes"})
    clues = (Clue((".con",), "is a file of concepts", content=r'(?m)^c=".*" \d+:\d+ \d+:\d+\|\|t='),)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the notes of a folder, or the note of a `.txt` file."""
        return read_each(files_below(path, ".txt"), lambda file: _read_note(file, path, problems), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write the four files of each document into the folders txt, concept, rel and ast of `path`.

        Ids, concepts, notes and all attributes except assertions are not kept.
        """
        write_folder(documents, path, _contents, folders=_FOLDERS)


def _read_note(file: Path, root: Path, problems: ProblemSink) -> Iterator[Document]:
    text = read_text(file)
    note = _Note(Draft(text), _words(text))
    if concepts := _annotation_file(file, ".con"):
        assertions = _annotation_file(file, ".ast")
        _read_concepts(note, Reporter(concepts, problems), Reporter(assertions, problems) if assertions else None)
    else:
        Reporter(file, problems).warning("has no .con file; read as a note without entities")
    if relations := _annotation_file(file, ".rel"):
        _read_relations(note, Reporter(relations, problems))
    name = Path(id_of(file, root))
    if name.parent.name == _FOLDERS[".txt"]:
        name = name.parent.parent / name.name
    yield note.draft.document(name.as_posix())


def _annotation_file(note: Path, ending: str) -> Path | None:
    """Return the annotation file of `note` in the same folder, or in the folder for its ending next to `txt`."""
    found = sibling(note, ending)
    if found is None and note.parent.name == _FOLDERS[".txt"]:
        root = note.parent.parent
        found = sibling(note, ending, folder=root / _FOLDERS[ending])
        refuse_links_out(root, () if found is None else (found.parent, found))
    return found


@dataclass(frozen=True)
class _Note:
    """A draft and the positions of its words."""

    draft: Draft
    words: _Words

    def range_of(self, quoted: str, place: Sequence[str], report: Reporter) -> Range | None:
        """Return the range from the first word to the last, if it matches the quoted words."""
        first_line, first_word, last_line, last_word = map(int, place)
        first, last = self.words.get((first_line, first_word)), self.words.get((last_line, last_word))
        if first is None or last is None or last.end <= first.start:
            report.error("the note has no such position; the line is left out")
            return None
        if _quotable(quoted) != _quotable(self.draft.text[first.start : last.end]):
            report.error("the words in quotes differ from the text at the position; the line is left out")
            return None
        return Range(first.start, last.end)


def _words(text: str) -> _Words:
    words, position = {}, 0
    for number, line in enumerate(text.split("\n"), start=1):
        for index, word in enumerate(re.finditer(r"\S+", line)):
            words[number, index] = Range(position + word.start(), position + word.end())
        position += len(line) + 1
    return words


def _quotable(words: str) -> str:
    """Return the words in the form used inside quotes."""
    return " ".join(words.split()).lower()


def _read_concepts(note: _Note, report: Reporter, assertions: Reporter | None) -> None:
    asserted: dict[tuple[Range, str], list[tuple[str, Reporter]]] = {}  # by the range and type they refer to
    for (quoted, *place, kind, value), here in _matches(_AST, assertions) if assertions else ():
        found = note.range_of(quoted, place, here)
        if found is not None:
            asserted.setdefault((found, kind), []).append((value, here))
    for (quoted, *place, kind), here in _matches(_CON, report):
        found = note.range_of(quoted, place, here)
        if found is not None:
            pairs = tuple((_ASSERTION, value) for value, _ in asserted.pop((found, kind), ()))
            entity_id = f"T{len(note.draft.entities) + 1}"
            note.draft.add_entity(here, entity_id=entity_id, kind=kind, ranges=[found], attributes=pairs)
    for _, here in (pair for pairs in asserted.values() for pair in pairs):
        here.error("the assertion refers to words that are not a concept of that type; it is left out")


def _read_relations(note: _Note, report: Reporter) -> None:
    draft = note.draft
    names = {entity.envelope: entity.id for entity in reversed(draft.entities.values())}
    for groups, here in _matches(_REL, report):
        head, tail = note.range_of(groups[0], groups[1:5], here), note.range_of(groups[6], groups[7:], here)
        if head is None or tail is None:
            continue
        if head not in names or tail not in names:
            here.error("the relation refers to words that are not a concept; it is left out")
        else:
            relation = Relation(f"R{len(draft.relations) + 1}", groups[5], names[head], names[tail])
            draft.add_relation(relation, here)


def _matches(pattern: re.Pattern[str], report: Reporter) -> Iterator[tuple[tuple[str, ...], Reporter]]:
    for number, line in read_lines(report.path):
        match = pattern.fullmatch(line)
        if match is not None:
            yield match.groups(), report.at(number)
        elif line.strip():
            report.at(number).error("does not have the form required by the file's ending; the line is left out")


def _contents(document: Document) -> dict[str, str]:
    """Return the content of the file for each ending. All four are written, so that no old file is left."""
    firsts: dict[Range, str] = {}  # of several mentions of the same words, a relation can only name the first
    for entity in document.entities:
        firsts.setdefault(entity.envelope, entity.id)
    first_ids = set(firsts.values())
    for relation in document.relations:
        if relation.level is not Level.MENTION:
            raise CorpusError(f"{relation.id} relates concepts, but this layout relates mentions; write it as BioC")
        if not first_ids.issuperset((relation.head, relation.tail)):
            raise CorpusError(f"{relation.id} relates one of two mentions of the same words; write it as BioC or brat")
    quoted = _quotes(document)
    concepts = {entity.id: f'{quoted[entity.id]}||t="{_checked(entity.type)}"' for entity in document.entities}
    assertions = (
        f'{concepts[entity.id]}||a="{_checked(value)}"'
        for entity in document.entities
        for key, value in entity.attributes
        if key == _ASSERTION
    )
    relations = (f'{quoted[r.head]}||r="{_checked(r.type)}"||{quoted[r.tail]}' for r in document.relations)
    lines: dict[str, Iterable[str]] = {".con": concepts.values(), ".ast": assertions, ".rel": relations}
    return {".txt": document.text} | {ending: "".join(f"{line}\n" for line in found) for ending, found in lines.items()}


def _quotes(document: Document) -> dict[str, str]:
    """Return the quoted words and the position of each entity, by its id."""
    words = _words(document.text)
    starts = {word.start: place for place, word in words.items()}
    ends = {word.end: place for place, word in words.items()}
    quotes = {}
    for entity in document.entities:
        first, last = starts.get(entity.start), ends.get(entity.end)
        if entity.is_discontinuous or first is None or last is None:
            raise CorpusError(f"{entity.id} is discontinuous or begins or ends inside a word; write it as BioC or brat")
        if first[0] != last[0]:
            raise CorpusError(f"{entity.id} crosses the end of a line; join the lines, or write it as BioC or brat")
        words_of_entity = _quotable(entity.text_in(document.text))
        quotes[entity.id] = f'c="{words_of_entity}" {first[0]}:{first[1]} {last[0]}:{last[1]}'
    return quotes


def _checked(value: str) -> str:
    if not value or re.search(r'["\r\n]', value):
        raise CorpusError("a type or assertion is empty or contains a quotation mark or a line end; rename it")
    return value
