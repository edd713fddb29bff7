"""i2b2/UTHealth 2014 de-identification: one XML file for each note, with a tag for each identifying mention.

    <?xml version="1.0" encoding="UTF-8" ?>
    <deIdi2b2>
    <TEXT><![CDATA[Seen by Dr. Quill on 2090-01-02.]]></TEXT>
    <TAGS>
    <NAME id="P0" start="12" end="17" text="Quill" TYPE="DOCTOR" comment="" />
    <DATE id="P1" start="21" end="31" text="2090-01-02" TYPE="DATE" comment="" />
    </TAGS>
    </deIdi2b2>

An entity's type is the attribute `TYPE`, or the name of the tag, which is its broader category. The root element may
have any name, because corpora in other languages use the same layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wardround.corpora.corpus_files import files_below, id_of, read_each, write_folder
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    check_choice,
    fail_on_error,
    whole_number,
)
from wardround.corpora.xml import escape_xml, read_xml
from wardround.errors import CorpusError
from wardround.text.document import Document

__all__ = ["Granularity", "I2b2Deid"]

Granularity = Literal["type", "category"]

_CATEGORIES = {
    "NAME": "PATIENT DOCTOR USERNAME",
    "PROFESSION": "PROFESSION",
    "LOCATION": "HOSPITAL ORGANIZATION STREET CITY STATE COUNTRY ZIP ROOM DEPARTMENT LOCATION-OTHER",
    "AGE": "AGE",
    "DATE": "DATE",
    "CONTACT": "PHONE FAX EMAIL URL IPADDR IPADDRESS",
    "ID": "SSN MEDICALRECORD HEALTHPLAN ACCOUNT LICENSE VEHICLE DEVICE BIOID IDNUM",
}
_CATEGORY_OF = {kind: category for category, kinds in _CATEGORIES.items() for kind in kinds.split()}
_OTHER = "OTHER"
_TAG_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class I2b2Deid(CorpusFormat):
    """Reader and writer of the 2014 de-identification layout."""

    name = "i2b2-2014"
    description = "XML, `.xml`, one file for each note"
    holds = frozenset[Content]({"entities", "notes"})
    clues = (Clue((".xml",), "has the tags of i2b2 2014", content=r"<deIdi2b2|<TAGS>"),)

    granularity: Granularity = "type"

    def __post_init__(self) -> None:
        check_choice("granularity", self.granularity, Granularity)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the notes of a folder or a file; an id is the file's path below `path`, without ending."""
        files = files_below(path, ".xml")
        return read_each(files, lambda file: self._read_note(file, id_of(file, path), problems), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write a file for each document into the folder `path`. Concepts and attributes are not kept."""
        write_folder(documents, path, lambda document: {".xml": "\n".join((*self._lines(document), ""))})

    def _read_note(self, file: Path, document_id: str, problems: ProblemSink) -> Iterator[Document]:
        report = Reporter(file, problems)
        nodes = list(read_xml(file, "TEXT", "TAGS"))
        texts = [node.text for node in nodes if node.tag == "TEXT"]
        if len(texts) != 1:
            report.error(f"has {len(texts)} TEXT elements; expected one")
            return
        draft = Draft(texts[0], words_in="attribute text")
        for tag in (child for node in nodes if node.tag == "TAGS" for child in node.children):
            start, end = (whole_number(tag.attributes.get(key, "")) for key in ("start", "end"))
            if start is None or end is None:
                report.at(tag.line).error("the tag has no start or no end; it is left out")
                continue
            draft.add_entity(
                report.at(tag.line),
                entity_id=tag.attributes.get("id") or f"P{len(draft.entities)}",
                kind=tag.tag if self.granularity == "category" else tag.attributes.get("TYPE", ""),
                ranges=[(start, end)],
                words=tag.attributes.get("text"),
                note=tag.attributes.get("comment", ""),
            )
        yield draft.document(document_id)

    def _lines(self, document: Document) -> Iterator[str]:
        if document.relations:
            raise CorpusError("has relations, which this layout cannot represent; write it as BioC or brat")
        yield '<?xml version="1.0" encoding="UTF-8" ?>'
        yield "<deIdi2b2>"
        escape_xml(document.text)  # refuses characters that XML cannot represent
        # What a CDATA section cannot contain is placed between sections.
        text = document.text.replace("]]>", "]]]]><![CDATA[>").replace("\r", "]]>&#13;<![CDATA[")
        yield f"<TEXT><![CDATA[{text}]]></TEXT>"
        yield "<TAGS>"
        for entity in document.entities:
            if entity.is_discontinuous or not entity.id:
                raise CorpusError(f"{entity.id} is discontinuous or has no id; write it as BioC or brat")
            tag = entity.type if self.granularity == "category" else _CATEGORY_OF.get(entity.type, _OTHER)
            if not _TAG_NAME.fullmatch(tag):
                raise CorpusError(f"the type of {entity.id} cannot be a tag name; rename it or use granularity 'type'")
            values = {
                "id": entity.id,
                "start": str(entity.start),
                "end": str(entity.end),
                "text": entity.text_in(document.text),
                "TYPE": entity.type,
                "comment": entity.note,
            }
            pairs = (f'{name}="{escape_xml(value, in_attribute=True)}"' for name, value in values.items())
            yield f"<{tag} {' '.join(pairs)} />"
        yield "</TAGS>"
        yield "</deIdi2b2>"
