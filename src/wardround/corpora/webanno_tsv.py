r"""WebAnno TSV 3, as WebAnno and INCEpTION export it, one file for each note.

    #FORMAT=WebAnno TSV 3.3
    #T_SP=webanno.custom.PHI|kind

    #Text=Aspirin burns badly
    1-1	0-7	Aspirin	Drug
    1-2	8-13	burns	ADE[1]
    1-3	14-19	badly	ADE[1]

Offsets count UTF-16 code units. `T_SP` declares a layer of mentions with a column for each feature, `T_RL` a layer of
relations; a number in brackets joins the tokens of one mention, and `|` separates several at one token. A relation
stands in the line of its tail. The white space between sentences is not in the file: it becomes a line break and
spaces. Chains and links to slots are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from wardround.corpora.corpus_files import files_below, id_of, read_each, read_lines
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    fail_on_error,
    whole_number,
)
from wardround.corpora.utf16 import Utf16Offsets
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Range, Relation

__all__ = ["WebannoTsv"]

_HEADER = "#FORMAT=WebAnno TSV 3"
_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_LAYERS = ("webanno.custom.", "custom.", _NAMED_ENTITY)
_BASE = "BT_"  # marks the column of a relation that names its head
_MAXIMUM_GAP = 10_000_000  # characters between two sentences; a larger gap is a wrong offset
_UNIT = re.compile(r"([0-9]{1,9}-[0-9]{1,9})(\.[0-9]{1,9})?")
_OFFSETS = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
_VALUE = re.compile(r"(.*?)(?:(?<!\\)\[([0-9]{1,9})\])?", re.DOTALL)
_HEAD_OF = re.compile(r"([0-9]{1,9}-[0-9]{1,9}(?:\.[0-9]{1,9})?)(?:\[([0-9]{1,9})_([0-9]{1,9})\])?")
_BAR = re.compile(r"(?<!\\)\|")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_NOTHING, _NO_VALUE = "_", "*"


class _Layer(NamedTuple):
    """A layer and its columns."""

    name: str
    features: tuple[str, ...]
    first: int  # column

    @property
    def base(self) -> str:
        """The layer that a layer of relations relates; empty if it is a layer of mentions."""
        return next((feature.removeprefix(_BASE) for feature in self.features if feature.startswith(_BASE)), "")


@dataclass
class _Mention:
    """A mention that grows token by token; its place is in UTF-16 code units."""

    label: str
    start: int
    end: int
    attributes: tuple[tuple[str, str], ...]
    report: Reporter


@dataclass
class _Note:
    """What was read of a note so far."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0  # in UTF-16 code units
    words: list[tuple[int, int]] = field(default_factory=list)
    sentences: list[tuple[int, int]] = field(default_factory=list)
    mentions: dict[tuple[str, str], _Mention] = field(default_factory=dict)  # by layer, and number or token
    relations: list[tuple[Relation, tuple[str, str], tuple[str, str], Reporter]] = field(default_factory=list)


@dataclass(frozen=True)
class WebannoTsv(CorpusFormat):
    """Reader of WebAnno TSV 3.

    `layer` names the layers whose annotations are read; by default all custom layers and NamedEntity. `feature` names
    the feature with the type; it is needed if a layer has several. The other features become attributes. `words` also
    reads tokens and sentences, which the tool makes itself.
    """

    name = "webanno"
    description = "WebAnno TSV 3, `.tsv`, one note each"
    holds = frozenset[Content]({"entities", "relations", "words", "sentences", "attributes"})
    clues = (Clue((".tsv",), "begins as WebAnno TSV 3", content=rf"\A{_HEADER}"),)

    layer: tuple[str, ...] | None = None
    feature: str | None = None
    words: bool = False

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the note of a file, or of each `.tsv` file below a folder; ids are paths."""

        def read_one(file: Path) -> Iterator[Document]:
            yield self._read_file(id_of(file, path), Reporter(file, problems))

        return read_each(files_below(path, ".tsv"), read_one, problems)

    def _read_file(self, name: str, report: Reporter) -> Document:
        note, layers, width = _Note(), list[_Layer](), 3
        sentence: list[str] = []
        rows: list[tuple[int, list[str]]] = []
        for number, line in read_lines(report.path):
            if number == 1 and not line.startswith(_HEADER):
                raise CorpusError(
                    "is not WebAnno TSV 3: the first line is not '#FORMAT=WebAnno TSV 3'", path=report.path
                )
            kind, equals, rest = line.partition("=")
            if kind in ("#T_SP", "#T_RL", "#T_CH") and equals and not rows:
                layer, *features = rest.split("|")
                if kind != "#T_CH":
                    layers.append(_Layer(layer, tuple(features), width))
                width += max(1, len(features))
            elif kind == "#Text" and equals:
                if rows:
                    self._add_sentence(note, sentence, rows, layers, report)
                    sentence, rows = [], []
                sentence.append(_unescaped(rest))
            elif line and not line.startswith("#"):
                rows.append((number, line.split("\t")))
        if rows:
            self._add_sentence(note, sentence, rows, layers, report)
        return self._document(note, name)

    def _add_sentence(
        self,
        note: _Note,
        lines: Sequence[str],
        rows: Sequence[tuple[int, list[str]]],
        layers: Sequence[_Layer],
        report: Reporter,
    ) -> None:
        """Add the text of a sentence at the place that its tokens have, and its annotations."""
        text, first = "\n".join(lines), report.at(rows[0][0])
        places = [_place(columns, report.at(number)) for number, columns in rows]
        known = [place for place in places if place is not None]
        if not known:
            return
        token = _unescaped(rows[places.index(known[0])][1][2])
        offsets = Utf16Offsets(text)
        start = known[0][1] - offsets.to_utf16(max(0, text.find(token)))
        gap = start - note.length
        if not 0 <= gap <= _MAXIMUM_GAP:
            first.error(f"the sentence begins at {start}, but the text before it ends at {note.length}; left out")
            return
        if gap:
            note.pieces.append("\n" + " " * (gap - 1))
        note.pieces.append(text)
        note.length = start + offsets.to_utf16(len(text))
        note.sentences.append((start, note.length))
        for (number, columns), place in zip(rows, places, strict=True):
            here = report.at(number)
            if place is None:
                continue
            unit, begin, end = place
            left, right = offsets.to_code_points(begin - start), offsets.to_code_points(end - start)
            if not 0 <= left <= right <= len(text) or text[left:right] != _unescaped(columns[2]):
                here.error("the token differs from the text of the sentence at its offsets; left out")
                continue
            if "." not in unit:
                note.words.append((begin, end))
            for layer in layers:
                if layer.name in self.layer if self.layer else layer.name.startswith(_LAYERS):
                    add = _add_relations if layer.base else self._add_mentions
                    add(note, layer, columns, place, here)

    def _add_mentions(
        self, note: _Note, layer: _Layer, columns: list[str], place: tuple[str, int, int], report: Reporter
    ) -> None:
        unit, begin, end = place
        label = self._label_column(layer)
        cells = [_cell(columns, layer.first + index) for index in range(max(1, len(layer.features)))]
        for index, (value, number) in enumerate(cells[label]):
            key = (layer.name, number or f"{unit}#{index}")
            if value == _NO_VALUE:
                report.error("the annotation has no type; label it, or skip faulty parts")
            elif key in note.mentions:
                note.mentions[key].end = max(note.mentions[key].end, end)
            else:
                others = [
                    (name, cell) for name, cell in zip(layer.features, cells, strict=False) if cell is not cells[label]
                ]
                attributes = tuple(
                    (name, other)
                    for name, cell in others
                    for position, (other, its) in enumerate(cell)
                    if other != _NO_VALUE and (its == number if number else position == index)
                )
                note.mentions[key] = _Mention(value, begin, end, attributes, report)

    def _label_column(self, layer: _Layer) -> int:
        """Return which column of the layer has the type."""
        if self.feature in layer.features:
            return layer.features.index(self.feature)
        if layer.name == _NAMED_ENTITY and "value" in layer.features:
            return layer.features.index("value")
        if len(layer.features) > 1:
            raise UsageError(
                f"the layer {layer.name} has several features: {', '.join(layer.features)}; "
                f"name the one with the type, for example --option feature={layer.features[0]}"
            )
        return 0

    def _document(self, note: _Note, name: str) -> Document:
        draft = Draft("".join(note.pieces))
        offsets, names = Utf16Offsets(draft.text), dict[tuple[str, str], str]()
        for key, mention in note.mentions.items():
            entity_id = f"T{len(names) + 1}"
            span = offsets.to_code_points(mention.start), offsets.to_code_points(mention.end)
            if draft.add_entity(
                mention.report,
                entity_id=entity_id,
                kind=mention.label,
                ranges=[span],
                attributes=mention.attributes,
            ):
                names[key] = entity_id
        for number, (relation, head, tail, report) in enumerate(note.relations, start=1):
            ends = names.get(head, ""), names.get(tail, "")
            draft.add_relation(Relation(f"R{number}", relation.type, *ends), report)
        words, sentences = (
            tuple(Range(offsets.to_code_points(start), offsets.to_code_points(end)) for start, end in found)
            if self.words
            else None
            for found in (note.words, note.sentences)
        )
        return draft.document(name, words=words, sentences=sentences)


def _add_relations(
    note: _Note, layer: _Layer, columns: list[str], place: tuple[str, int, int], report: Reporter
) -> None:
    """Add the relations whose tail is at this token."""
    base = next(index for index, feature in enumerate(layer.features) if feature.startswith(_BASE))
    labels = _cell(columns, layer.first) if base else []
    targets = columns[layer.first + base] if layer.first + base < len(columns) else _NOTHING
    for index, target in enumerate(_BAR.split(targets) if targets != _NOTHING else []):
        found = _HEAD_OF.fullmatch(target)
        if found is None:
            report.error(f"the head of a relation in the layer {layer.name} does not have the form 1-2 or 1-2[3_4]")
            continue
        label = labels[index][0] if index < len(labels) else _NO_VALUE
        kind = layer.name.rpartition(".")[2] if label == _NO_VALUE else label
        unit, head, tail = found[1], found[2] or "0", found[3] or "0"
        keys = [(layer.base, number if number != "0" else f"{at}#0") for number, at in ((head, unit), (tail, place[0]))]
        note.relations.append((Relation("", kind, "", ""), keys[0], keys[1], report))


def _cell(columns: Sequence[str], column: int) -> list[tuple[str, str]]:
    """Return the values of a cell with the numbers in their brackets; a number is empty if there is none."""
    content = columns[column] if column < len(columns) else _NOTHING
    if content in (_NOTHING, ""):
        return []
    found = []
    for part in _BAR.split(content):
        match = _VALUE.fullmatch(part)
        assert match is not None, "the expression matches any text"
        found.append((_NO_VALUE if match[1] == _NO_VALUE else _unescaped(match[1]), match[2] or ""))
    return found


def _place(columns: Sequence[str], report: Reporter) -> tuple[str, int, int] | None:
    """Return the number of a token and its range in UTF-16 code units, or report why the line is none."""
    offsets = _OFFSETS.fullmatch(columns[1]) if len(columns) > 2 else None
    if offsets is None or not _UNIT.fullmatch(columns[0]):
        report.error("is not a token: expected columns such as '1-1', '0-7' and the word")
        return None
    begin, end = whole_number(offsets[1]), whole_number(offsets[2])
    assert begin is not None and end is not None, "the expression matches numbers"
    return columns[0], begin, end


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _CONTROLS.get(match[1], match[1]), text) if "\\" in text else text
