"""The XML of the DDI corpus (drug-drug interactions) and of corpora that follow it, one or more documents in a file.

    <document id="DDI.d1">
      <sentence id="DDI.d1.s0" text="Aspirin and warfarin interact.">
        <entity id="DDI.d1.s0.e0" charOffset="0-6" type="drug" text="Aspirin"/>
        <entity id="DDI.d1.s0.e1" charOffset="12-19" type="drug" text="warfarin"/>
        <pair id="DDI.d1.s0.p0" e1="DDI.d1.s0.e0" e2="DDI.d1.s0.e1" ddi="true" type="effect"/>
      </sentence></document>

Offsets count from the start of the sentence, and the last one is that of the last character; `;` separates the parts
of a discontinuous mention. The sentences of a document are joined by a line break. A pair is a relation only if it is
marked as true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.corpus_files import files_below, read_each
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    fail_on_error,
)
from wardround.corpora.xml import XmlNode, read_xml
from wardround.text.document import Document, Range, Relation

__all__ = ["Ddi"]

_OFFSETS = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
_TRUE = {"true", "1", "yes"}
_MARKS = ("ddi", "interaction")  # attributes that say whether a pair is a relation
_INTERACTION = "interaction"  # the type of a pair that names none


@dataclass(frozen=True)
class Ddi(CorpusFormat):
    """Reader of DDI-style XML."""

    name = "ddi"
    description = "XML of the DDI corpus, `.xml`: sentences with entities and pairs"
    holds = frozenset[Content]({"entities", "discontinuous", "relations", "sentences"})
    clues = (Clue((".xml",), "has sentences with entities at charOffset", content=r"<entity\b[^>]*\bcharOffset="),)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of each `.xml` file below a folder."""
        return read_each(files_below(path, ".xml"), lambda file: _read_file(Reporter(file, problems)), problems)


def _read_file(report: Reporter) -> Iterator[Document]:
    for node in read_xml(report.path, "document"):
        name = node.attributes.get("id", "")
        if not name:
            report.at(node.line).error("the document has no id and is left out")
            continue
        sentences = node.all("sentence")
        texts = [sentence.attributes.get("text", "") for sentence in sentences]
        draft, ranges, start = Draft("\n".join(texts), words_in="attribute text"), list[Range](), 0
        for sentence, text in zip(sentences, texts, strict=True):
            here = report.at(sentence.line)
            if not text:
                here.error("the sentence has no text")
            else:
                ranges.append(Range(start, start + len(text)))
            for entity in sentence.all("entity"):
                _add_entity(draft, entity, start, len(text), report.at(entity.line))
            for pair in sentence.all("pair"):
                _add_pair(draft, pair, report.at(pair.line))
            start += len(text) + 1
        yield draft.document(name, sentences=ranges)


def _add_entity(draft: Draft, node: XmlNode, start: int, length: int, report: Reporter) -> None:
    ranges = []
    for part in node.attributes.get("charOffset", "").split(";"):
        found = _OFFSETS.fullmatch(part.strip())
        if found is None or int(found[2]) >= length:
            report.error("charOffset does not have the form '0-6' or '0-6;10-14' inside the sentence; left out")
            return
        ranges.append((start + int(found[1]), start + int(found[2]) + 1))
    draft.add_entity(
        report,
        entity_id=node.attributes.get("id") or f"T{len(draft.entities) + 1}",
        kind=node.attributes.get("type", ""),
        ranges=ranges,
        words=node.attributes.get("text"),
    )


def _add_pair(draft: Draft, node: XmlNode, report: Reporter) -> None:
    mark = next((node.attributes[name] for name in _MARKS if name in node.attributes), "true")
    if mark.lower() not in _TRUE:
        return
    kind = node.attributes.get("type") or _INTERACTION
    ends = (node.attributes.get("e1", ""), node.attributes.get("e2", ""))
    name = node.attributes.get("id") or f"R{len(draft.relations) + 1}"
    draft.add_relation(Relation(name, kind, *ends), report)
