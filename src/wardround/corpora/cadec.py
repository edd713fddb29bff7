"""CADEC: posts of patients, with mentions in brat-like files in separate folders.

    text/LUNAROL.1.txt       A bit drowsy all day.
    original/LUNAROL.1.ann   T1	ADR 2 12	bit drowsy
    original/LUNAROL.1.ann   #1	AnnotatorNotes T1	since the second week
    meddra/LUNAROL.1.ann     TT1	10099999 2 12	bit drowsy
    sct/LUNAROL.1.ann        TT1	999999001 | Drowsy | 2 12	bit drowsy

A discontinuous mention has several pairs of offsets, separated by `;`. The folders `meddra` and `sct` are optional.
Their codes become concepts such as `MedDRA:10099999` and `SNOMEDCT:999999001` of the mentions at the same offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.corpora.corpus_files import (
    existing,
    files_below,
    id_of,
    read_each,
    read_lines,
    read_text,
    refuse_links_out,
)
from wardround.corpora.corpus_format import (
    OFFSETS,
    Clue,
    Content,
    CorpusFormat,
    Draft,
    Problem,
    ProblemSink,
    Reporter,
    fail_on_error,
    offset_pairs,
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
class Cadec(CorpusFormat):
    """Reader of the CADEC layout. To write such a corpus, use brat."""

    name = "cadec"
    description = "a folder with `text`, `original` and optionally `meddra` and `sct`"
    holds = frozenset[Content]({"entities", "discontinuous", "concepts", "notes"})
    clues = (
        Clue((".ann",), "is in a folder beside `text`, as CADEC has", beside=".txt", folders=("text", "original")),
    )

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the posts of the folder `path`, which contains `text`, `original` and optionally `meddra` and `sct`."""
        texts = path / "text"
        if not texts.is_dir():
            raise CorpusError("contains no folder 'text'; name the parent folder of 'text' and 'original'", path=path)
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
            except CorpusError as error:  # the post is kept if its codes cannot be read
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
            draft.replace_entity(replace(entity, note=f"{entity.note}\n{words}" if entity.note else words))
        else:
            here.error(f"the remark is about {entity_id}, which is not a mention here; it is left out")


def _read_codes(draft: Draft, terminology: str, report: Reporter) -> None:
    """Add the codes of each line, if it has any, to the mentions at its offsets."""
    for number, line in read_lines(report.path):
        coded = _CODED.fullmatch(line)
        if coded is None:
            if line.strip():
                report.at(number).error("does not have the form 'TT1 TAB code start end TAB words'; it is left out")
            continue
        codes = [f"{terminology}:{code}" for code in _CODE.findall(_NAME_OF_CODE.sub(" ", coded[1]))]
        ranges = sorted(offset_pairs(coded[2]))
        found = [entity for entity in draft.entities.values() if list(entity.ranges) == ranges]
        if not found:
            report.at(number).warning("the code is for words that are not a mention; it is left out")
        for entity in found:
            draft.replace_entity(replace(entity, concepts=(*entity.concepts, *codes)))
