"""XML for corpus formats: read elements one at a time without expanding entities, and escape text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, cast
from xml.parsers.expat import ErrorString

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from wardround.corpora.corpus_files import read_chunks
from wardround.errors import CorpusError

__all__ = ["XmlNode", "escape_xml", "read_xml"]

_CHUNK = 65_536  # characters that the parser gets at once
# INCEpTION also writes XML 1.1, which the parser does not know; the two differ only in rare control characters.
_VERSION = re.compile(r"""\A(\ufeff?<\?xml\s+version=["'])1\.1""")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


@dataclass(slots=True)
class XmlNode:
    """A complete element; `line` is where it begins."""

    tag: str
    attributes: dict[str, str] = field(repr=False)
    line: int
    content: list[XmlNode | str] = field(default_factory=list, repr=False)

    @property
    def text(self) -> str:
        """All characters inside, including those of its children."""
        pieces: list[str] = []
        left: list[XmlNode | str] = [self]
        while left:  # a stack, not recursion: a hostile file may nest deeper than Python can call
            found = left.pop()
            if isinstance(found, str):
                pieces.append(found)
            else:
                left += reversed(found.content)
        return "".join(pieces)

    @property
    def children(self) -> list[XmlNode]:
        """The child elements."""
        return [part for part in self.content if not isinstance(part, str)]

    def all(self, tag: str) -> list[XmlNode]:
        """Return the children named `tag`."""
        return [child for child in self.children if child.tag == tag]

    def find(self, tag: str) -> XmlNode | None:
        """Return the first child named `tag`, or None."""
        return next((child for child in self.children if child.tag == tag), None)

    def text_of(self, tag: str) -> str:
        """Return the text of the first child named `tag`, empty if there is none."""
        found = self.find(tag)
        return "" if found is None else found.text


def read_xml(path: Path, *tags: str) -> Iterator[XmlNode]:
    """Yield each element with one of these names as soon as it ends, without keeping it.

    Declared entities are refused, because a few lines of them can expand to gigabytes.
    """
    builder = _Builder(tags)
    parser = DefusedXMLParser(target=builder)
    builder.expat = cast(Any, parser).parser
    for number, chunk in enumerate(chain(read_chunks(path, _CHUNK), [""])):  # the empty chunk is the end
        if number == 0:
            chunk = _VERSION.sub(r"\g<1>1.0", chunk, count=1)
        fault: CorpusError | None = None
        try:
            parser.feed(chunk) if chunk else parser.close()
        except ParseError as error:
            # The parser's own message may quote the text; its error code does not.
            reason = f"is not well-formed XML: {ErrorString(error.code)}"
            fault = CorpusError(reason, path=path, line=error.position[0])
        except DefusedXmlException:
            reason = "declares entities, which are refused; replace them by their text"
            fault = CorpusError(reason, path=path, line=builder.expat.CurrentLineNumber)
        yield from builder.take()  # the elements before the fault
        if fault is not None:
            raise fault


@dataclass
class _Builder:
    """The parser's target; keeps only the path to the current element and finished elements with requested names."""

    tags: tuple[str, ...]
    expat: Any = None
    path: list[XmlNode] = field(default_factory=list)
    finished: list[XmlNode] = field(default_factory=list)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        node = XmlNode(tag, attributes, self.expat.CurrentLineNumber)
        if self.path and tag not in self.tags:
            self.path[-1].content.append(node)
        self.path.append(node)

    def end(self, tag: str) -> None:
        node = self.path.pop()
        if tag in self.tags:
            self.finished.append(node)

    def data(self, text: str) -> None:
        if self.path:
            self.path[-1].content.append(text)

    def close(self) -> None:
        """Do nothing: elements are taken as they end."""

    def take(self) -> list[XmlNode]:
        taken, self.finished = self.finished, []
        return taken


def escape_xml(text: str, *, in_attribute: bool = False) -> str:
    """Escape the text for XML; raise `CorpusError` for a character that XML 1.0 cannot represent."""
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        raise CorpusError(
            f"it contains the character U+{ord(forbidden[0]):04X}, which XML cannot; remove it or write it as jsonl"
        )
    return text.translate(_IN_ATTRIBUTE if in_attribute else _IN_TEXT)
