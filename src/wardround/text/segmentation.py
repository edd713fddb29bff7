"""Words and sentences of clinical notes, as character offsets.

A word is a run of letters, a run of digits, or one other visible character. Letters and digits are separated because
clinical notes write them together (`10mg`, `82años`) and annotators mark only one of the two.

Notes mix prose and lists. A blank line always ends a sentence. A single line break ends one unless it looks like a
wrapped line. A full stop ends one unless it belongs to an abbreviation or an initial.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wardround.text.document import Document, Range

__all__ = ["find_sentences", "find_words", "sentences_of", "words_of"]

# A decomposed accent (U+0300-U+036F) stays with its letter. A byte order mark is no word; where offsets count it, it
# stays in the text.
_WORD = re.compile(r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*|\d+|[^\w\s\ufeff]|_")

_ABBREVIATIONS = frozenset(
    "dr dra mr mrs ms prof sr sra st vs etc approx no nr fig cf al e.g i.e eg ie pt pts wt ht temp resp dept hosp tel "
    "ext inc jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m "
    # Spanish addresses, without abbreviations such as "km" that also end a sentence in other languages.
    "avda ctra crta carr pza pº c/ edif gral hnos sta sto dpto depto".split()
)
# Each match starts at the start of its run and is possessive, so that a page of dots or blanks takes linear time.
_STOP = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]]*+(?=\s++\S)")
_BREAK = re.compile(r"(?<![ \t])[ \t]*+(?:\r\n|\n|\r)\s*+")
_NEXT = re.compile(r"\s+(\S)")
_LAST_TOKEN = re.compile(r"(?:[\w.]+|\bc/)$", re.IGNORECASE)


def find_words(text: str, within: Range | None = None) -> list[Range]:
    """Return the words of `text`, or of the range `within`, as offsets in `text`."""
    start, end = within or (0, len(text))
    return [Range(*match.span()) for match in _WORD.finditer(text, start, end)]


def words_of(document: Document) -> tuple[Range, ...]:
    """Return the words that the corpus provides, or find them."""
    return tuple(find_words(document.text)) if document.words is None else document.words


def find_sentences(text: str) -> list[Range]:
    """Return sentences as offsets, without surrounding white space; each visible character is in exactly one."""
    sentences: list[Range] = []
    for start, end in _lines(text):
        for match in _STOP.finditer(text, start, end):
            if _ends_sentence(text, start, match):
                sentences += _stripped(text, start, match.end())
                start = match.end()
        sentences += _stripped(text, start, end)
    return sentences


def sentences_of(document: Document) -> tuple[Range, ...]:
    """Return the sentences that the corpus provides, or find them."""
    return tuple(find_sentences(document.text)) if document.sentences is None else document.sentences


def _lines(text: str) -> Iterator[Range]:
    """Yield the lines; a wrapped line and its continuation are one.

    A line is wrapped at a single line break before a lower-case letter and after a word or a comma.
    """
    start = 0
    for match in _BREAK.finditer(text):
        one_break = len(re.findall(r"\r\n|\n|\r", match.group())) == 1
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        wrapped = one_break and after.islower() and (before.isalnum() or before in {",", ";", "(", "-"})
        if not wrapped:
            yield from _stripped(text, start, match.start())
            start = match.end()
    yield from _stripped(text, start, len(text))


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


def _stripped(text: str, start: int, end: int) -> list[Range]:
    while start < end and (text[start].isspace() or text[start] == "\ufeff"):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] == "\ufeff"):
        end -= 1
    return [Range(start, end)] if start < end else []
