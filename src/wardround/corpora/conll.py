r"""CoNLL columns: one word on each line, its tag in a column, a blank line after each sentence.

    -DOCSTART-	O

    Aspirin	B-Drug
    80	B-Dose
    mg	I-Dose

    No	O

If the first line that is not blank is a `-DOCSTART-`, each such line begins a document; otherwise every sentence is a
document. The words of a sentence are joined by one space, the sentences of a document by a line break.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from wardround.corpora.corpus_files import files_below, id_of, read_each, read_lines, write_file
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    ProblemSink,
    Reporter,
    check_choice,
    fail_on_error,
)
from wardround.errors import CorpusError, TagError, UsageError
from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import sentences_of, words_of
from wardround.text.tag_schemes import OUTSIDE, SCHEMES, WordSpan

__all__ = ["Conll", "Misfits", "SchemeName"]

SchemeName = Literal["BIO", "BIOES", "IOB1"]
Misfits = Literal["refuse", "widen"]

_ENDINGS = (".tsv", ".conll", ".iob", ".bio", ".txt")
_DELIMITERS = {"tab": "\t", "space": " ", "whitespace": None}
_DOCUMENT_START = "-DOCSTART-"
_FILLER = "_"


class _Word(NamedTuple):
    text: str
    tag: str
    line: int


def _clues() -> tuple[Clue, ...]:
    """Return a clue for each delimiter and scheme: three lines in a row end in a tag."""
    columns = {"tab": r"^[^\t\r\n]+(?:\t[^\t\r\n]*)*\t", "space": r"^\S+(?: \S+)* "}
    # BIOES is the only scheme with S and E, and IOB1 the only one that allows I after O; so BIO comes last.
    looks = {"BIOES": "[SE]-", "IOB1": r"O\r?\n{column}I-", "BIO": ""}
    found = []
    for scheme, mark in looks.items():
        for delimiter, column in columns.items():
            lines = rf"(?m)(?:{column}(?:O|[BIES]-\S+)\r?\n){{3}}"
            seen = rf"(?=[\s\S]*{column}{mark.replace('{column}', column)})" if mark else ""
            options = {"delimiter": delimiter, "scheme": scheme}
            why = f"has {scheme} tags in columns separated by a {delimiter}"
            found.append(Clue(_ENDINGS, why, content=rf"(?m)\A{seen}[\s\S]*?{lines[4:]}", options=options))
    return tuple(found)


@dataclass(frozen=True)
class Conll(CorpusFormat):
    """Reader and writer of CoNLL columns.

    Columns count from 0, or backwards from -1. The delimiter is `tab`, `space`, `whitespace` (any run of it) or the
    characters themselves. Nothing is guessed: a file that does not fit its options is an error.

    The writer begins every document with a `-DOCSTART-`. It uses the words and sentences of the corpus, or finds them
    and joins two found sentences if a mention crosses their border. The white space between words, relations,
    concepts, attributes and notes are not kept.
    """

    name = "conll"
    description = "columns, one word on each line: `.tsv`, `.conll`, `.iob`, `.bio`, `.txt`"
    ending = ".tsv"
    holds = frozenset[Content]({"entities", "words", "sentences"})
    clues = _clues()

    word_column: int = 0
    tag_column: int = -1
    delimiter: str = "tab"
    scheme: SchemeName = "BIO"
    misfits: Misfits = "refuse"  # how to write a mention that begins or ends inside a word

    def __post_init__(self) -> None:
        check_choice("scheme", self.scheme, SchemeName)
        check_choice("value of misfits", self.misfits, Misfits)
        if not self.delimiter:
            raise UsageError("the delimiter is empty: expected tab, space, whitespace or the characters themselves")
        if self.word_column == self.tag_column:
            raise UsageError(f"words and tags cannot both be in column {self.word_column}")

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of each column file below a folder; ids are `<stem>:<number>`."""
        return read_each(
            files_below(path, *_ENDINGS), lambda file: self._read_file(file, id_of(file, path), problems), problems
        )

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file; raise `CorpusError` for a mention that one tag for each word cannot express."""
        write_file(documents, path, self._lines)

    def _read_file(self, file: Path, stem: str, problems: ProblemSink) -> Iterator[Document]:
        report = Reporter(file, problems)
        for number, sentences in enumerate(_documents(self._sentences(file, report), report), start=1):
            words: list[Range] = []
            bounds: list[Range] = []
            entities: list[Entity] = []
            position = 0
            for sentence in sentences:
                ranges = []
                for word in sentence:
                    ranges.append(Range(position, position + len(word.text)))
                    position += len(word.text) + 1
                entities += [
                    Entity(f"T{at}", span.type, (Range(ranges[span.start].start, ranges[span.end - 1].end),))
                    for at, span in enumerate(self._spans(sentence, report), start=len(entities) + 1)
                ]
                words += ranges
                bounds.append(Range(ranges[0].start, ranges[-1].end))
            text = "\n".join(" ".join(word.text for word in sentence) for sentence in sentences)
            yield Document(f"{stem}:{number}", text, tuple(entities), words=tuple(words), sentences=tuple(bounds))

    def _sentences(self, file: Path, report: Reporter) -> Iterator[list[_Word]]:
        """Yield sentences, and a sentence of one empty word for each `-DOCSTART-`; a real word is never empty."""
        sentence: list[_Word] = []
        for number, line in read_lines(file):
            starts_document = line.startswith(_DOCUMENT_START)
            if (starts_document or not line.strip()) and sentence:
                yield sentence
                sentence = []
            if starts_document:
                yield [_Word("", OUTSIDE, number)]
            elif line.strip() and (word := self._word(line, number, report)):
                sentence.append(word)
        if sentence:
            yield sentence

    def _word(self, line: str, number: int, report: Reporter) -> _Word | None:
        """Return the word of the line, or None if the line does not fit."""
        columns = line.split(self._separator)
        expected = f"words were expected in column {self.word_column}, tags in column {self.tag_column}"
        if len(columns) < self._width:
            report.at(number).error(f"has {len(columns)} columns separated by {self.delimiter!r}; {expected}")
            return None
        word, tag = columns[self.word_column], columns[self.tag_column]
        if not word:
            report.at(number).error(f"the word is empty; {expected}")
            return None
        if not _is_tag(tag, self.scheme):
            # Do not quote the tag: if the column is wrong, it is a word of the note.
            report.at(number).error(f"the tag is not a {self.scheme} tag; {expected}")
            tag = OUTSIDE
        return _Word(word, tag, number)

    def _spans(self, sentence: Sequence[_Word], report: Reporter) -> list[WordSpan]:
        tags = [word.tag for word in sentence]
        if tags.count(OUTSIDE) == len(tags):  # a fast path: in many corpora, half of the sentences have no mention
            return []
        for index, (left, right) in enumerate(pairwise([None, *tags, None])):
            if not SCHEMES[self.scheme].may_follow(left, right):
                line = sentence[min(index, len(sentence) - 1)].line
                report.at(line).warning(f"the tags are not legal {self.scheme} from here on; they were repaired")
                break
        return SCHEMES[self.scheme].spans(tags)

    def _lines(self, document: Document) -> Iterator[str]:
        joint = self._separator or " "
        yield joint.join([_DOCUMENT_START, *[OUTSIDE] * (self._width - 1)])
        yield ""
        words = words_of(document)
        spans_of_document = sorted(self._word_spans(document, words))
        for sentence, spans in _cut_into_sentences(document, words, spans_of_document):
            try:
                tags = SCHEMES[self.scheme].encode(spans, len(sentence))
            except TagError as error:
                raise CorpusError(f"{error}; write it as brat or jsonl") from None
            for (start, end), tag in zip(sentence, tags, strict=True):
                cells = [_FILLER] * self._width
                cells[self.word_column], cells[self.tag_column] = document.text[start:end], tag
                line = joint.join(cells)
                columns = line.split(self._separator)
                fits = len(columns) == self._width and all(
                    columns[column] == cells[column] for column in (self.word_column, self.tag_column)
                )
                if not fits or "\n" in line or "\r" in line or line.startswith(_DOCUMENT_START):
                    raise CorpusError(
                        f"a word or a type cannot be written in columns separated by {self.delimiter!r}; "
                        "choose another delimiter, or write it as jsonl"
                    )
                yield line
            yield ""

    def _word_spans(self, document: Document, words: Sequence[Range]) -> Iterator[WordSpan]:
        starts, ends = [word.start for word in words], [word.end for word in words]
        for entity in document.entities:
            first, end = bisect_right(ends, entity.start), bisect_left(starts, entity.end)
            if entity.is_discontinuous or first >= end:
                raise CorpusError(f"{entity.id} is discontinuous or contains no word; write it as brat or jsonl")
            if self.misfits == "refuse" and (starts[first], ends[end - 1]) != entity.envelope:
                raise CorpusError(
                    f"{entity.id} begins or ends inside a word or next to one; set misfits=widen to use whole words"
                )
            yield WordSpan(first, end, entity.type)

    @cached_property
    def _width(self) -> int:
        needed = max(c + 1 if c >= 0 else -c for c in (self.word_column, self.tag_column))
        same = self.word_column % needed == self.tag_column % needed
        return needed + 1 if same else needed

    @cached_property
    def _separator(self) -> str | None:
        return _DELIMITERS.get(self.delimiter, self.delimiter)


@lru_cache(maxsize=1024)
def _is_tag(tag: str, scheme: SchemeName) -> bool:
    try:
        return bool(SCHEMES[scheme].repair([tag]))
    except TagError:
        return False


def _documents(sentences: Iterator[list[_Word]], report: Reporter) -> Iterator[list[list[_Word]]]:
    """Group sentences into documents, at each `-DOCSTART-` or, without any, one sentence each."""
    first = next(sentences, None)
    if first is None:
        return
    if first[0].text:
        yield [first]
        for sentence in sentences:
            if sentence[0].text:
                yield [sentence]
            else:
                report.at(sentence[0].line).error(
                    f"there is a {_DOCUMENT_START} here but not at the start of the file; begin the file with one"
                )
        return
    document: list[list[_Word]] = []
    for sentence in sentences:
        if sentence[0].text:
            document.append(sentence)
        else:
            yield document
            document = []
    yield document


def _cut_into_sentences(
    document: Document, words: Sequence[Range], spans: Sequence[WordSpan]
) -> Iterator[tuple[list[Range], list[WordSpan]]]:
    """Yield the words of each sentence that has any, and its mentions as spans of these words."""
    next_word = next_span = 0
    for bounds in _sentence_bounds(document):
        first = next_word
        while next_word < len(words) and words[next_word].end <= bounds.end:
            next_word += 1
        inside = []
        while next_span < len(spans) and first <= spans[next_span].start and spans[next_span].end <= next_word:
            start, end, kind = spans[next_span]
            inside.append(WordSpan(start - first, end - first, kind))
            next_span += 1
        if next_word > first:
            yield list(words[first:next_word]), inside
    if next_word < len(words) or next_span < len(spans):
        raise CorpusError(
            "a word or a mention is outside every sentence or crosses into the next; write it as brat or jsonl"
        )


def _sentence_bounds(document: Document) -> list[Range]:
    """Return the sentences of the corpus, or found ones, joined if a mention crosses their border."""
    if document.sentences is not None:
        return list(document.sentences)
    bounds: list[Range] = []
    mentions = sorted((entity.envelope for entity in document.entities), reverse=True)
    reach = 0
    for found in sentences_of(document):
        while mentions and mentions[-1].start < found.start:
            reach = max(reach, mentions.pop().end)
        if bounds and reach > found.start:
            bounds[-1] = Range(bounds[-1].start, found.end)
        else:
            bounds.append(found)
    return bounds
