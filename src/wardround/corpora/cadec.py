"""CADEC: posts of patients, and mentions in files like brat's that lie in folders of their own.

    text/LUNAROL.1.txt       A bit drowsy all day.
    original/LUNAROL.1.ann   T1	ADR 2 12	bit drowsy
    original/LUNAROL.1.ann   #1	AnnotatorNotes T1	since the second week
    meddra/LUNAROL.1.ann     TT1	10099999 2 12	bit drowsy
    sct/LUNAROL.1.ann        TT1	999999001 | Drowsy | 2 12	bit drowsy

A mention in several pieces has several pairs of offsets, parted by `;`. The folders `meddra` and `sct` are optional;
their codes become concepts such as `MedDRA:10099999` and `SNOMEDCT:999999001` of the mentions at the same offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.corpora.draft import Draft, Reporter
from wardround.corpora.fields import OFFSETS, offset_pairs
from wardround.corpora.file_names import existing, id_of
from wardround.corpora.source import (
    Problem,
    ProblemSink,
    fail_on_error,
    files_below,
    read_each,
    read_lines,
    read_text,
    refuse_links_out,
)
from wardround.errors import CorpusError
from wardround.text.document import Document

__all__ = ["Cadec"]

_MENTION = re.compile(rf"(T[0-9]+)\t(\S+) ({OFFSETS})\t(.*)", re.DOTALL)
_REMARK = re.compile(r"#[0-9]*\tAnnotatorNotes (T[0-9]+)\t(.*)", re.DOTALL)
_CODED = re.compile(rf"TT?[0-9]+\t(.*?)\s({OFFSETS})\t.*", re.DOTALL)
_NAME_OF_CODE = re.compile(r"\|[^|]*\|")
_CODE = re.compile(r"[0-9]{6,18}")
_TERMINOLOGIES = {"meddra": "MedDRA", "sct": "SNOMEDCT"}


@dataclass(frozen=True)
class Cadec:
    """Reader of the CADEC layout. To write such a corpus, use brat."""

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the posts of the folder `path`, which holds `text`, `original` and perhaps `meddra` and `sct`."""
        texts = path / "text"
        if not texts.is_dir():
            raise CorpusError("holds no folder 'text'; name the folder that holds 'text' and 'original'", path=path)
        refuse_links_out(path, path.rglob("*"))
        return read_each(files_below(texts, ".txt"), lambda file: _read_post(file, path, problems), problems)


def _read_post(file: Path, root: Path, problems: ProblemSink) -> Iterator[Document]:
    document_id = id_of(file, root / "text")
    draft = Draft(read_text(file))
    if original := existing(root / "original" / f"{document_id}.ann"):
        _read_mentions(draft, Reporter(original, problems))
    else:
        Reporter(file, problems).warning("has no .ann file in 'original'; read as a post without entities")
    for folder, terminology in _TERMINOLOGIES.items():
        if coded := existing(root / folder / f"{document_id}.ann"):
            try:
                _read_codes(draft, terminology, Reporter(coded, problems))
            except CorpusError as error:  # a file of codes that cannot be read does not cost the post
                problems(Problem(error.reason, coded, error.line))
    yield draft.document(document_id)


def _read_mentions(draft: Draft, report: Reporter) -> None:
    remarks = []
    for number, line in read_lines(report.path):
        here = report.at(number)
        if mention := _MENTION.fullmatch(line):
            entity_id, kind, offsets, words = mention.groups()
            draft.add_entity(here, entity_id=entity_id, kind=kind, ranges=offset_pairs(offsets), words=words)
        elif remark := _REMARK.fullmatch(line):
            remarks.append((remark[1], remark[2], here))
        elif line.strip():
            here.error("is neither a mention nor a remark; it is left out")
    for entity_id, words, here in remarks:
        if entity := draft.entities.get(entity_id):
            draft.change_entity(replace(entity, note=f"{entity.note}\n{words}" if entity.note else words))
        else:
            here.error(f"the remark is about {entity_id}, which is no mention here; it is left out")


def _read_codes(draft: Draft, terminology: str, report: Reporter) -> None:
    for number, line in read_lines(report.path):
        coded = _CODED.fullmatch(line)
        if coded is not None:
            codes = _CODE.findall(_NAME_OF_CODE.sub(" ", coded[1]))
            _add_codes(draft, coded[2], [f"{terminology}:{code}" for code in codes], report=report.at(number))
        elif line.strip():
            report.at(number).error("is not of the form 'TT1 TAB code start end TAB words'; it is left out")


def _add_codes(draft: Draft, offsets: str, codes: list[str], *, report: Reporter) -> None:
    """Add the codes, none for a mention that has no concept, to the mentions at `offsets`."""
    ranges = sorted(offset_pairs(offsets))
    found = [entity for entity in draft.entities.values() if list(entity.ranges) == ranges]
    if not found:
        report.warning("the code is for words that are no mention; it is left out")
    for entity in found:
        draft.change_entity(replace(entity, concepts=(*entity.concepts, *codes)))
