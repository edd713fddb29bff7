"""Sentence bounds in clinical notes.

Notes are half prose, half list: a blank line always parts, a single line break parts unless it looks like a wrapped
line, and a full stop parts unless it ends an abbreviation or an initial.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from wardround.text.document import Document, Range

__all__ = ["find_sentences", "sentences_of"]

_ABBREVIATIONS = frozenset(
    "dr dra mr mrs ms prof sr sra st vs etc approx no nr fig cf al e.g i.e eg ie pt pts wt ht temp resp dept hosp tel "
    "ext inc jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m "
    # Of Spanish addresses; those that end a sentence in other languages too, as "km", are not among them.
    "avda ctra crta carr pza pº c/ edif gral hnos sta sto dpto depto".split()
)
# A match begins where its run begins and gives nothing back, so that a page of dots or blanks costs no more than prose.
_STOP = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]]*+(?=\s++\S)")
_BREAK = re.compile(r"(?<![ \t])[ \t]*+(?:\r\n|\n|\r)\s*+")
_NEXT = re.compile(r"\s+(\S)")
_LAST_TOKEN = re.compile(r"(?:[\w.]+|\bc/)$", re.IGNORECASE)


def find_sentences(text: str) -> list[Range]:
    """Sentences as offsets, without the white space around them; every visible character is in exactly one."""
    return [sentence for line in _lines(text) for sentence in _split_line(text, line)]


def sentences_of(document: Document) -> tuple[Range, ...]:
    """The corpus's own sentences where it gives them, found ones otherwise."""
    return tuple(find_sentences(document.text)) if document.sentences is None else document.sentences


def _lines(text: str) -> Iterator[Range]:
    start = 0
    for match in _BREAK.finditer(text):
        if _is_wrap(text, match):
            continue
        yield from _stripped(text, start, match.start())
        start = match.end()
    yield from _stripped(text, start, len(text))


def _is_wrap(text: str, gap: re.Match[str]) -> bool:
    """A line that goes on in lower case after one without a full stop was broken by the printer, not the writer."""
    one_break = len(re.findall(r"\r\n|\n|\r", gap.group())) == 1
    before, after = text[gap.start() - 1 : gap.start()], text[gap.end() : gap.end() + 1]
    return one_break and after.islower() and (before.isalnum() or before in {",", ";", "(", "-"})


def _split_line(text: str, line: Range) -> Iterator[Range]:
    start = line.start
    for match in _STOP.finditer(text, *line):
        if _ends_sentence(text, start, match):
            yield from _stripped(text, start, match.end())
            start = match.end()
    yield from _stripped(text, start, line.end)


def _ends_sentence(text: str, start: int, stop: re.Match[str]) -> bool:
    following = _NEXT.match(text, stop.end())
    if following and following.group(1).islower():
        return False
    if not stop.group().startswith("."):
        return True
    token = _LAST_TOKEN.search(text, max(start, stop.start() - 20), stop.start())
    if token is None:
        return True
    word = token.group()
    return word.lower() not in _ABBREVIATIONS and not (len(word) == 1 and word.isalpha())


def _stripped(text: str, start: int, end: int) -> Iterable[Range]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return [Range(start, end)] if start < end else []
